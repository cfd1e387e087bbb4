package pool

import "net/netip"

// resting are the addresses that were freed, the oldest first.
type resting struct {
	at    map[netip.Addr]uint64
	queue []rested // some may be void
	n     uint64
}

type rested struct {
	addr netip.Addr
	n    uint64
}

func (r *resting) has(a netip.Addr) bool { _, there := r.at[a]; return there }

// add lets an address rest behind all others.
func (r *resting) add(a netip.Addr) {
	if r.at == nil {
		r.at = map[netip.Addr]uint64{}
	}
	r.n++
	r.at[a] = r.n
	r.queue = append(r.queue, rested{a, r.n})
	if len(r.queue) > 2*len(r.at)+16 {
		kept := make([]rested, 0, len(r.at))
		for _, x := range r.queue {
			if r.at[x.addr] == x.n {
				kept = append(kept, x)
			}
		}
		r.queue = kept
	}
}

func (r *resting) remove(a netip.Addr) { delete(r.at, a) }

// oldest takes out the address that has rested longest.
func (r *resting) oldest() (netip.Addr, bool) {
	for len(r.queue) > 0 {
		x := r.queue[0]
		r.queue = r.queue[1:]
		if r.at[x.addr] == x.n {
			delete(r.at, x.addr)
			return x.addr, true
		}
	}
	return netip.Addr{}, false
}

// keep drops those that do not pass.
func (r *resting) keep(pass func(netip.Addr) bool) {
	for a := range r.at {
		if !pass(a) {
			delete(r.at, a)
		}
	}
}
