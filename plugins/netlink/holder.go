package netlink

import (
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/pidfd"
)

// holder is one process or path by which a namespace was opened. The namespace
// stays open until its last holder ends: of a process its pidfd tells that, of a path
// the pathWatch.
type holder struct {
	id      kernel.NS
	path    string
	pid     int            // 0 unless it is a process
	process *pidfd.Process // nil unless it is a process
	forGood bool
}

// same reports whether another holder adds nothing to this one.
func (h *holder) same(other *holder) bool {
	if h.forGood || h.pid != other.pid || !h.alive() {
		return h.forGood
	}
	return h.pid != 0 || h.path == other.path
}

// alive asks the system, not what we were told last.
func (h *holder) alive() bool {
	return h.forGood || h.running() && (h.process != nil || inodeAt(h.path) == h.id)
}

// running reports whether the process has not ended; true without a process.
func (h *holder) running() bool { return h.process == nil || h.process.Alive() }

func (h *holder) close() {
	if h.process != nil {
		h.process.Close()
	}
}
