package oom

import (
	"context"
	"fmt"
	"time"
)

// Death is what is asked about: that of the first process of a container.
type Death struct {
	// ID is that of Follow.
	ID string
	// Pid of the process, 0 if it is not known.
	Pid int
}

// question waits for its answer until a time.
type question struct {
	Death
	until time.Time
	reply func(Verdict)
	// asked is set once it was looked at; unnamed is how many kills of the
	// container had no name then.
	asked   bool
	unnamed int
}

// Ask says whether a container's first process was killed because memory ran
// out. Best asked as soon as the death is known, while the cgroup is there. It
// answers at once if it can, and otherwise after Options.Patience or when ctx
// ends. Before Run and after it nobody knows.
func (w *Watcher) Ask(ctx context.Context, d Death) Verdict {
	answered := make(chan Verdict, 1)
	posted := w.post(func() {
		w.questions = append(w.questions, &question{
			Death: d, until: time.Now().Add(w.opts.Patience),
			reply: func(v Verdict) { answered <- v },
		})
	})
	if !posted {
		return Verdict{Why: "the agent stops"}
	}
	limit := time.NewTimer(2 * w.opts.Patience) // for a loop that does not run
	defer limit.Stop()
	select {
	case v := <-answered:
		return v
	case <-ctx.Done():
		return Verdict{Why: ctx.Err().Error()}
	case <-limit.C:
		return Verdict{Why: "kills are not watched"}
	}
}

// answer settles the questions that can be.
func (w *Watcher) answer(now time.Time) {
	var open []*question
	for _, q := range w.questions {
		final := !now.Before(q.until)
		v, sure := w.decide(q, final, now)
		if !sure {
			open = append(open, q)
			continue
		}
		if a := w.accounts[q.ID]; a != nil && a.Pid == q.Pid {
			a.ended = true
		}
		q.reply(v)
	}
	w.questions = open
}

// decide answers as far as it is sure; at the end of the patience it is, with
// whatever is known then.
func (w *Watcher) decide(q *question, final bool, now time.Time) (v Verdict, sure bool) {
	a := w.accounts[q.ID]
	if a == nil || q.Pid != 0 && a.Pid != q.Pid {
		return w.decideStray(q.Death, final, now)
	}
	if !q.asked {
		q.asked, q.unnamed = true, a.unnamed
	}
	if k := a.first(); k != nil {
		return Verdict{Answer: Yes, Kill: k}, true
	}
	count, err := w.opts.Host.Kills(a.Cgroups)
	switch {
	case err == nil && count > a.told && !final:
		return v, false // a name is on its way
	case err == nil && count > a.told:
		w.tellUnnamed(a, now)
		return Verdict{Answer: Yes}, true
	case a.unnamed > q.unnamed, a.lately(now):
		return Verdict{Answer: Yes}, true
	case err == nil:
		return Verdict{Answer: No}, true
	case !final:
		return v, false
	}
	return w.byMessages(a.since, fmt.Sprintf("its cgroup is gone (%v)", err)), true
}

// decideStray is decide for a life that is not followed: it came and went
// before anybody looked.
func (w *Watcher) decideStray(d Death, final bool, now time.Time) (v Verdict, sure bool) {
	for i := len(w.strays) - 1; i >= 0; i-- {
		k := w.strays[i].kill
		its := k.Pid == d.Pid
		if d.Pid == 0 {
			its = k.Container == d.ID && now.Sub(k.Time) < fresh
		}
		if its {
			return Verdict{Answer: Yes, Kill: &k}, true
		}
	}
	if !final {
		return v, false
	}
	if d.Pid == 0 {
		return Verdict{Why: "it ended before it was followed"}, true
	}
	return w.byMessages(0, "it was not followed"), true
}

// byMessages says no if the log would have named the victim, had there been one.
func (w *Watcher) byMessages(since uint64, why string) Verdict {
	switch {
	case w.dead != nil:
		return Verdict{Why: why + " and the kernel's log cannot be read: " + w.dead.Error()}
	case w.losses > since:
		return Verdict{Why: why + " and messages of the kernel were lost"}
	}
	return Verdict{Answer: No}
}
