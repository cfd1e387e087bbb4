package oom

import (
	"cmp"
	"slices"
	"time"
)

// keptStrays bounds how many victims are remembered whose container is not
// followed, or not known.
const keptStrays = 256

// stray is a victim whose container is not known.
type stray struct {
	kill    Kill
	settled bool // was told, or claimed by a container
}

// claimable: only a counter can say whose it is.
func (s stray) claimable() bool { return !s.settled && s.kill.Container == "" }

// victim judges a kill that the log tells of.
func (w *Watcher) victim(v victim, now time.Time) {
	k := v.kill(now)
	k.LimitContainer = w.ownerOf(v.limit)
	a := w.containerOf(&k)
	if a != nil {
		w.book(a, k)
		return
	}
	settled := false
	switch ids := idsIn(k.Cgroup); {
	case len(ids) > 0: // perhaps it is followed in a moment
		k.Container = ids[0]
	case k.Cgroup != "": // a process of the host
		w.tell(k)
		settled = true
	default:
		w.lookAtAll(now)
	}
	if len(w.strays) == keptStrays {
		w.strays = append(w.strays[:0], w.strays[1:]...)
	}
	w.strays = append(w.strays, stray{kill: k, settled: settled})
}

// kill is a victim in the words of those who are told.
func (v victim) kill(now time.Time) Kill {
	return Kill{Time: now, Pid: v.pid, Name: v.name, Cgroup: v.cgroup, group: v.group, Limit: v.limit, Constraint: v.constraint, Times: 1}
}

// giveStrays gives a container the kills that were heard of before it was followed.
func (w *Watcher) giveStrays(a *account, now time.Time) {
	kept := w.strays[:0]
	for _, s := range w.strays {
		k := s.kill
		k.LimitContainer = w.ownerOf(k.Limit)
		switch its := a.has(k.Cgroup) || k.Cgroup == "" && k.Pid == a.Pid; {
		case its && !s.settled:
			w.book(a, k)
		case its && w.look(a, now) > 0: // told under its bare id
			a.told++
		case its:
		default:
			kept = append(kept, s)
		}
	}
	w.strays = kept
	w.look(a, now)
}

// containerOf finds the victim's container: by its cgroup as the kernel
// reports it, by its pid, or by its cgroup as long as the process can be seen.
func (w *Watcher) containerOf(k *Kill) *account {
	if k.Cgroup != "" {
		if a := w.inCgroup(k.Cgroup); a != nil || k.group == "" {
			return a
		}
	}
	for _, a := range w.accounts {
		if a.owns(k, w.opts.Patience) {
			return a
		}
	}
	cgroups, err := w.opts.Host.Cgroups(k.Pid)
	if err != nil {
		return nil
	}
	for _, path := range memoryPaths(cgroups) {
		k.Cgroup = cmp.Or(k.Cgroup, path)
		if a := w.inCgroup(path); a != nil {
			return a
		}
	}
	return nil
}

// inCgroup finds the container whose cgroup it is; of containers in
// containers the innermost that is followed.
func (w *Watcher) inCgroup(path string) (best *account) {
	for _, a := range w.accounts {
		if a.has(path) && (best == nil || len(a.paths[0]) > len(best.paths[0])) {
			best = a
		}
	}
	if best != nil {
		return best
	}
	for _, id := range slices.Backward(idsIn(path)) {
		for _, a := range w.accounts {
			if a.ID == id {
				return a
			}
		}
	}
	return nil
}

// ownerOf names the container whose limit it is, "" if it is that of no container.
func (w *Watcher) ownerOf(limit string) string {
	if limit == "" {
		return ""
	}
	if a := w.inCgroup(limit); a != nil {
		return a.ID
	}
	if ids := idsIn(limit); len(ids) > 0 {
		return ids[0]
	}
	return ""
}

// book tells a kill of a container that is followed.
func (w *Watcher) book(a *account, k Kill) {
	k.Container, k.First = a.ID, a.Pid != 0 && k.Pid == a.Pid
	k.All = len(a.paths) > 0 && within(a.paths[0], k.group)
	count, err := w.opts.Host.Kills(a.Cgroups)
	w.tell(a.named(k, count, err == nil))
}

func (w *Watcher) tell(k Kill) {
	w.count(func(s *Stats) {
		s.Kills += uint64(k.Times)
		if k.Pid == 0 {
			s.Unnamed += uint64(k.Times)
		}
	})
	w.opts.Tell(k)
}

// look reads a container's counter. If it is ahead of what was told, the log
// gets some time to name the rest.
func (w *Watcher) look(a *account, now time.Time) (ahead uint64) {
	count, err := w.opts.Host.Kills(a.Cgroups)
	if err != nil {
		return 0
	}
	return a.lacks(count, now)
}

func (w *Watcher) lookAtAll(now time.Time) {
	for _, a := range w.accounts {
		w.look(a, now)
	}
}

// settle ends the waiting: victims go to the one container that lacks just so
// many, the rest is told as it is.
func (w *Watcher) settle(now time.Time) {
	var lacking []*account
	for _, a := range w.sorted() {
		if !a.ahead.IsZero() {
			lacking = append(lacking, a)
		}
	}
	w.claim(lacking, now)
	for _, a := range lacking {
		if !a.ahead.IsZero() && now.Sub(a.ahead) >= w.opts.Patience {
			w.tellUnnamed(a, now)
		}
	}
	for i := range w.strays {
		s := &w.strays[i]
		if !s.settled && now.Sub(s.kill.Time) >= w.opts.Patience {
			s.settled = true
			if s.kill.Container != "" || len(lacking) == 0 { // else it is one of those that were told without a name
				w.tell(s.kill)
			}
		}
	}
}

// claim gives victims without a container to the only container that lacks
// victims, if it lacks no fewer than there are.
func (w *Watcher) claim(lacking []*account, now time.Time) {
	if len(lacking) != 1 {
		return
	}
	open := 0
	for _, s := range w.strays {
		if s.claimable() {
			open++
		}
	}
	a := lacking[0]
	if n := w.look(a, now); open == 0 || uint64(open) > n {
		return
	}
	for i := range w.strays {
		if s := &w.strays[i]; s.claimable() {
			s.settled = true
			w.book(a, s.kill)
		}
	}
	w.look(a, now)
}

// tellUnnamed tells what only the counter knows.
func (w *Watcher) tellUnnamed(a *account, now time.Time) {
	if w.look(a, now); a.seen <= a.told { // of one that is gone, as it was last
		a.ahead = time.Time{}
		return
	}
	w.tell(Kill{Time: now, Container: a.ID, Cgroup: a.paths[0], Count: a.seen, Times: a.unnamedKills()})
}
