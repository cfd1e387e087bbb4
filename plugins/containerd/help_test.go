package containerd_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/plumb-net/plumb/plugins/container"
)

// silent is a runtime whose events get lost.
type silent struct{ container.Runtime }

func (s silent) Events(ctx context.Context, ready func(), _ func(container.Hint)) error {
	return s.Runtime.Events(ctx, ready, func(container.Hint) {})
}

// heard are the hints that a runtime gave.
type heard struct {
	mu    sync.Mutex
	hints []container.Hint
}

// by is the runtime that is listened to.
func (h *heard) by(rt container.Runtime) container.Runtime { return overheard{rt, h} }

type overheard struct {
	container.Runtime
	heard *heard
}

func (o overheard) Events(ctx context.Context, ready func(), hint func(container.Hint)) error {
	return o.Runtime.Events(ctx, ready, func(h container.Hint) {
		o.heard.mu.Lock()
		o.heard.hints = append(o.heard.hints, h)
		o.heard.mu.Unlock()
		hint(h)
	})
}

func (h *heard) all() []container.Hint {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.hints)
}

func (h *heard) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hints = nil
}

// has reports whether a hint of the container says so.
func (h *heard) has(id string, says container.EventType) error {
	if !slices.ContainsFunc(h.all(), func(o container.Hint) bool { return o.ID == id && o.Says == says }) {
		return fmt.Errorf("no hint says that %s was %s", id, says)
	}
	return nil
}

// parent is the parent of a process.
func parent(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(data), ") ")
	var state string
	var ppid int
	if _, err := fmt.Sscan(after, &state, &ppid); err != nil || ppid <= 1 {
		t.Fatalf("process %d has parent %d, %v", pid, ppid, err)
	}
	return ppid
}
