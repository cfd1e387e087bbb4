package oom

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
)

// fakeLog is a kernel's log in memory.
type fakeLog struct {
	mu      sync.Mutex
	records []string
	lost    bool
	dead    error
	seq     uint64
	wake    chan struct{}
}

func newLog() *fakeLog { return &fakeLog{wake: make(chan struct{}, 1)} }

func (l *fakeLog) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// print writes lines; one that begins with a level is taken as it is.
func (l *fakeLog) print(lines ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range lines {
		l.seq++
		l.records = append(l.records, record(l.seq, line))
	}
	l.poke()
}

func record(seq uint64, line string) string {
	level, flags := "6", "-"
	if rest, ok := strings.CutPrefix(line, "user: "); ok {
		level, line = "14", rest
	}
	if rest, ok := strings.CutPrefix(line, "more: "); ok {
		flags, line = "c", rest
	}
	return level + "," + itoa(seq) + ",1234," + flags + ";" + line + "\n"
}

func (l *fakeLog) Next() (Message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.dead != nil:
		return Message{}, l.dead
	case l.lost:
		l.lost = false
		return Message{}, ErrLost
	case len(l.records) == 0:
		return Message{}, ErrNone
	}
	m, ok := parseMessage(l.records[0])
	if !ok {
		return m, errors.New("bad record in the test: " + l.records[0])
	}
	l.records = l.records[1:]
	return m, nil
}

func (l *fakeLog) Wait(ctx context.Context) error {
	select {
	case <-l.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *fakeLog) Close() error { return nil }

// fakeHost has cgroups in memory, by their path.
type fakeHost struct {
	mu     sync.Mutex
	counts map[string]uint64
	procs  map[int]string
}

func newHost() *fakeHost { return &fakeHost{counts: map[string]uint64{}, procs: map[int]string{}} }

func (h *fakeHost) Kills(cgroups string) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if paths := memoryPaths(cgroups); len(paths) > 0 {
		if n, ok := h.counts[paths[0]]; ok {
			return n, nil
		}
	}
	return 0, os.ErrNotExist
}

func (h *fakeHost) Cgroups(pid int) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if text, ok := h.procs[pid]; ok {
		return text, nil
	}
	return "", os.ErrNotExist
}
