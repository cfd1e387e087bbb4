package netlink

import (
	"slices"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/openfiles"
)

// filesEach is what a namespace costs at most: its own file, its event sockets, and
// the process by which it was opened. Conns come and go beside it.
const filesEach = 4

// recount is how long a count of open files is believed.
const recount = time.Second

// allowance is a count of open files, and how many were admitted since. Where the
// kernel does not tell the number, counting takes as long as there are files.
type allowance struct {
	usage openfiles.Usage
	taken int
	at    time.Time
}

// room reports by an error that one namespace more would leave too few open files
// for all else. Conns that are idle make way first. k.mu is held.
func (k *Kernel) room() error {
	a := &k.counted
	a.taken += filesEach
	limit, err := openfiles.Limit()
	if err != nil {
		return err
	}
	if limit == a.usage.Limit && 2*a.taken < a.usage.Slack() && time.Since(a.at) < recount {
		return nil
	}
	for {
		u, err := openfiles.Read()
		if err != nil {
			return err
		}
		k.calm.fit(u.Limit)
		*a = allowance{usage: u, taken: filesEach, at: time.Now()}
		if u.Slack() >= filesEach {
			return nil
		}
		if !k.calm.closeAll() {
			return u.Refuse()
		}
	}
}

// Opened yields a value after a namespace was opened, one for many.
func (k *Kernel) Opened() <-chan struct{} { return k.newcomers }

// CloseUnused closes the namespaces that nobody uses and that no call has touched
// since the last CloseUnused, so that nobody loses one between finding it and using
// it. It returns how many that nobody uses it left open; to those it should come
// back. The own namespace stays.
func (k *Kernel) CloseUnused(used func(kernel.NS) bool) (left int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, e := range k.namespaces {
		forGood := slices.ContainsFunc(e.holders, func(h *holder) bool { return h.forGood })
		if forGood || used(id) {
			continue
		}
		if e.touched.Swap(false) || e.busy() {
			left++
			continue
		}
		k.drop(id, e)
	}
	return left
}

// busy reports whether calls are under way.
func (n *namespace) busy() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.users > 0
}
