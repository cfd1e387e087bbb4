package container

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"
)

// inspection is what one inspect found out.
type inspection struct {
	Container
	// process is the container's process, nil if it does not run, if the process
	// cannot be had, or if the one held before is still the right one.
	process *processHandle
	// vanished says that the runtime speaks of a process that is not there.
	vanished bool
}

// processHandle is a process of a container that the loop keeps an eye on. The fields
// belong to the loop once the inspection was handed to it.
type processHandle struct {
	*Process
	run run
	// ended is set when the process has ended.
	ended bool
}

// The process of a container may end, and its id be reused, between the
// answer of the runtime and the opening of the process. So what was opened is
// checked, and if in doubt the runtime is asked again.
const (
	inspectTries = 4
	inspectPause = 50 * time.Millisecond
)

// look inspects a container and takes hold of its process. held is the life
// whose process is held already.
func (s *source) look(ctx context.Context, id string, held run) (inspection, error) {
	var doubtful *processHandle
	for try := 0; ; try++ {
		c, err := s.rt.Inspect(ctx, id)
		if err != nil {
			s.release(doubtful)
			return inspection{}, err
		}
		if doubtful != nil && c.run() == doubtful.run {
			return inspection{Container: c, process: doubtful}, nil
		}
		s.release(doubtful)
		doubtful = nil
		if !c.Running || c.run() == held {
			return inspection{Container: c}, nil
		}
		h, err := s.open(id, c.run())
		if err != nil && !errors.Is(err, ErrNoProcess) {
			return inspection{}, err
		}
		switch {
		case h != nil && belongs(h.Cgroup, id) == yes:
			return inspection{Container: c, process: h}, nil
		case h != nil && belongs(h.Cgroup, id) == perhaps:
			doubtful = h // the same answer again confirms it
			continue
		}
		s.release(h)
		if try == inspectTries-1 {
			return inspection{Container: c, vanished: true}, nil
		}
		if !pause(ctx, inspectPause<<try) {
			return inspection{}, ctx.Err()
		}
	}
}

// open takes hold of a process; its end comes into the loop.
func (s *source) open(id string, r run) (*processHandle, error) {
	h := &processHandle{run: r}
	p, err := s.t.opts.Processes.Open(r.pid, func() {
		s.t.post(s.ctx, func() { s.processEnded(id, h) })
	})
	if err != nil {
		return nil, err
	}
	h.Process = p
	return h, nil
}

func (s *source) release(h *processHandle) {
	if h != nil && h.Process != nil {
		h.Close()
	}
}

// answer is what a cgroup tells of a process and a container.
type answer int

const (
	no answer = iota
	perhaps
	yes
)

var fullID = regexp.MustCompile(`[0-9a-f]{64}`)

// belongs reports whether a process in the cgroups is one of the container:
// runtimes put the id into the path, as a directory (/docker/<id>) or as a unit
// of systemd (cri-containerd-<id>.scope). A short id could be a part of any
// word. Cgroups that name only other containers are those of a process that
// took over the number.
func belongs(cgroup, id string) answer {
	_, id = scope("", id)
	full := fullID.MatchString(id)
	if full && strings.Contains(cgroup, id) {
		return yes
	}
	for _, dir := range strings.FieldsFunc(cgroup, func(r rune) bool { return r == '/' || r == '\n' }) {
		if !full && (dir == id || strings.HasSuffix(dir, "-"+id+".scope")) {
			return yes
		}
	}
	if fullID.MatchString(cgroup) {
		return no
	}
	return perhaps
}

// pause waits, and reports whether ctx still stands.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
