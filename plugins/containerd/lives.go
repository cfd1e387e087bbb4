package containerd

import (
	"sync"
	"time"

	"github.com/plumb-net/plumb/plugins/container"
)

// lives remembers the last life of each container. containerd itself knows no
// start times, and forgets exit codes with the task, which is deleted as soon
// as whoever ran it has noticed its end.
type lives struct {
	mu  sync.Mutex
	all map[string]life
}

// life is one run of a container.
type life struct {
	pid uint32
	// born is when the process began, by the kernel's word; told is when
	// containerd told of it first, the second best.
	born, told time.Time
	// begun: it was started, and not only made ready.
	begun bool
	over  bool
	end   end
	// noted is when this was last changed.
	noted time.Time
}

// end is how a life ended.
type end struct {
	code int
	at   time.Time
}

func (l life) startedAt() time.Time {
	if l.born.IsZero() {
		return l.told
	}
	return l.born
}

func (ls *lives) of(id string) (life, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.all[id]
	return l, l.begun
}

// forget that a container lived: it was deleted.
func (ls *lives) forget(id string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.all, id)
}

// note changes the life of a container.
func (ls *lives) note(id string, change func(l *life)) life {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.all == nil {
		ls.all = map[string]life{}
	}
	l := ls.all[id]
	change(&l)
	l.noted = time.Now()
	ls.all[id] = l
	return l
}

// created comes from the stream, in order, when the process is there and waits
// to be started, so that the kernel still knows when it began, however short
// it will live.
func (ls *lives) created(id string, pid uint32, at time.Time) {
	born := bornAt(int(pid))
	ls.note(id, func(l *life) {
		if l.pid != pid || l.over {
			*l = life{pid: pid, born: born, told: at}
		}
	})
}

// started comes from the stream as well. It returns when the life began.
func (ls *lives) started(id string, pid uint32, at time.Time) time.Time {
	ls.created(id, pid, at)
	return ls.note(id, func(l *life) { l.begun = true }).startedAt()
}

// seen comes from an inspect that saw the process. It may be late: what it saw
// counts only if the kernel knows that process, and began it after the life
// that is remembered.
func (ls *lives) seen(id string, pid uint32) life {
	born := bornAt(int(pid))
	return ls.note(id, func(l *life) {
		switch {
		case l.pid == pid && !l.over:
			l.begun = true
			if l.born.IsZero() {
				l.born = born
			}
		case born.After(l.startedAt()):
			*l = life{pid: pid, born: born, begun: true}
		}
	})
}

// ended comes from the stream or from an inspect of the ended task. It returns
// when the life ended: not before it began, whatever the clocks say.
func (ls *lives) ended(id string, pid uint32, e end) time.Time {
	return ls.note(id, func(l *life) {
		switch {
		case l.pid != pid && !e.at.After(l.startedAt()): // an inspect that comes late
		case l.pid != pid:
			*l = life{pid: pid, begun: true, over: true, end: e}
		case !l.over:
			if e.at.Before(l.startedAt()) {
				e.at = l.startedAt()
			}
			l.over, l.end = true, e
		}
	}).end.at
}

// keepOnly forgets the lives of containers that were not listed by a list that
// began at the time.
func (ls *lives) keepOnly(all []container.Summary, began time.Time) {
	listed := make(map[string]bool, len(all))
	for _, s := range all {
		listed[s.ID] = true
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for id, l := range ls.all {
		if !listed[id] && l.noted.Before(began) {
			delete(ls.all, id)
		}
	}
}
