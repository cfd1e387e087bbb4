package kernel

import "sync"

// uses counts who uses which namespace: whose object is in it, or who waits for one
// there. The others need not stay open.
type uses struct {
	mu    sync.Mutex
	of    map[string]NS
	users map[NS]int
	freed chan struct{} // has room for one
}

func newUses() *uses {
	return &uses{of: map[string]NS{}, users: map[NS]int{}, freed: make(chan struct{}, 1)}
}

func (u *uses) set(id string, ns NS) {
	u.mu.Lock()
	defer u.mu.Unlock()
	had := u.of[id]
	if had == ns {
		return
	}
	if had != 0 {
		delete(u.of, id)
		if u.users[had]--; u.users[had] == 0 {
			delete(u.users, had)
			select {
			case u.freed <- struct{}{}:
			default:
			}
		}
	}
	if ns != 0 {
		u.of[id] = ns
		u.users[ns]++
	}
}

// Use says that a key uses a namespace, which is to stay open, and no other any more.
// What is recorded is used without that.
func (o *Owner) Use(id string, ns NS) { o.uses.set(id, ns) }

// Leave says that a key uses no namespace any more. What is removed is not used
// any more without that.
func (o *Owner) Leave(id string) { o.uses.set(id, 0) }

// Uses reports whether a namespace is used by any key.
func (o *Owner) Uses(ns NS) bool {
	o.uses.mu.Lock()
	defer o.uses.mu.Unlock()
	return o.uses.users[ns] > 0
}

// Freed yields a value after a namespace lost its last user, one for many.
func (o *Owner) Freed() <-chan struct{} { return o.uses.freed }
