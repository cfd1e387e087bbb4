package kubernetes

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/plugins/kubernetes/mirror"
	"github.com/plumb-net/plumb/scheduler"
)

const (
	// settle is for how long a network must be pending or failed until that is reported. Most are ready before, and an
	// operation that fails once, as when a sandbox ends, is not worth an event.
	settle = 2 * time.Second
	// pause is the least time between two writes of one pod, and pauseSame if the state is the same: only the reason
	// differs, or the API server does not show the last write.
	pause     = time.Second
	pauseSame = 30 * time.Second
	// between is the least time between two writes of this node.
	between = 200 * time.Millisecond
	// eventBurst is how many events of one pod are written at once, and eventPause the time after which one more may be.
	eventBurst = 6
	eventPause = time.Minute
	// firstWrite and lastWrite bound the time until a write that failed is tried again.
	firstWrite = time.Second
	lastWrite  = time.Minute
)

// reporter writes to the API server how the networks of the pods are. It compares what is there with what it
// should be: nothing depends on it having seen a change.
type reporter struct {
	*Source
	patch func(ctx context.Context, p *Pod, s *Status) error
	event func(ctx context.Context, p *Pod, s Status)
	// patchIntent writes the status of a PodIntent.
	patchIntent func(ctx context.Context, i *PodIntent, s Status) error
	// reported are the pods by path, and the PodIntents by the path of their pod and their name, as partID makes it.
	reported map[string]*reported
	// next is the earliest time of the next write.
	next time.Time
}

// reported holds the last status of one pod or PodIntent, and the times of its writes.
type reported struct {
	uid string
	// next is when the object is looked at again; zero: when something changes.
	next time.Time
	// last is the last computed status.
	last  Status
	wrote time.Time
	sent  Status
	// networks is the annotation of the networks of a pod when it was written last.
	networks string
	wait     time.Duration // after a failure
	again    time.Time     // the earliest time of the next try after a failure
	// failed: the last state that was written was StateFailed.
	failed bool
	// told is failed as of the last event, and fullAt is when eventBurst events may be written again. Zero: no event of this
	// run.
	told   bool
	fullAt time.Time
}

func newReporter(s *Source) *reporter {
	return &reporter{Source: s, patch: s.patchStatus, event: s.event, patchIntent: s.patchIntent,
		reported: map[string]*reported{}}
}

// run reports until ctx ends.
func (r *reporter) run(ctx context.Context) {
	news := r.opts.Engine.Watch(watched()...)
	defer news.Stop()
	changes := make(chan []string)
	go func() {
		defer close(changes)
		for {
			list, _, err := news.Next(ctx)
			if err != nil {
				return
			}
			var bases []string
			for _, st := range list {
				if base, ok := keyBase(st.Key); ok && !slices.Contains(bases, base) {
					bases = append(bases, base)
				}
			}
			if len(bases) == 0 {
				continue
			}
			select {
			case changes <- bases:
			case <-ctx.Done():
				return
			}
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			for range changes { // until the watcher has ended
			}
			return
		case bases, ok := <-changes:
			if !ok {
				return
			}
			for _, base := range bases {
				r.dueAll(r.pathOf(base), time.Now())
			}
		case <-r.reports:
			for path := range r.takeTouched() {
				r.dueAll(path, time.Now())
			}
		case <-timer.C:
		}
		timer.Reset(r.write(ctx))
	}
}

// watched are the prefixes of the keys of pods.
func watched() (prefixes []scheduler.Key) {
	for _, kind := range podKinds {
		prefixes = append(prefixes, scheduler.Key(kind+"/"))
	}
	return prefixes
}

// keyBase returns the part of a key that all keys of a pod share, up to the local name.
func keyBase(k scheduler.Key) (base string, ok bool) {
	_, name, _ := strings.Cut(string(k), "/")
	name, _, _ = strings.Cut(name, "/") // of an address that an interface derives
	dot := strings.LastIndexByte(name, '.')
	return name[:max(dot, 0)], strings.HasPrefix(name, "pod.") && dot > 0
}

// partID identifies a PodIntent of a pod in reported.
func partID(path, name string) string { return path + "/" + name }

// splitID returns the path of the pod, and the name of the PodIntent or "".
func splitID(id string) (path, name string) {
	parts := strings.SplitN(id, "/", 3)
	if len(parts) == 3 {
		name = parts[2]
	}
	return strings.Join(parts[:min(2, len(parts))], "/"), name
}

// dueAll schedules a pod, its PodIntents and its former PodIntents.
func (r *reporter) dueAll(path string, at time.Time) {
	if path == "" {
		return
	}
	r.due(path, at)
	v, _ := r.view(path)
	for _, one := range v.parts {
		r.due(partID(path, one.intent.Name), at)
	}
	for id := range r.reported {
		if strings.HasPrefix(id, path+"/") {
			r.due(id, at)
		}
	}
}

// due schedules an object, unless it is scheduled earlier.
func (r *reporter) due(id string, at time.Time) {
	p := r.reported[id]
	if p == nil {
		p = &reported{}
		r.reported[id] = p
	}
	if p.next.IsZero() || at.Before(p.next) {
		p.next = at
	}
}

// write writes the status of one pod that is due, and returns for how long there is nothing to do.
func (r *reporter) write(ctx context.Context) time.Duration {
	now := time.Now()
	if wait := r.next.Sub(now); wait > 0 {
		return wait
	}
	var first string
	for _, id := range slices.Sorted(maps.Keys(r.reported)) {
		if at := r.reported[id].next; !at.IsZero() && (first == "" || at.Before(r.reported[first].next)) {
			first = id
		}
	}
	if first == "" {
		return time.Hour
	}
	if wait := time.Until(r.reported[first].next); wait > 0 {
		return wait
	}
	p := r.reported[first]
	p.next = time.Time{}
	if r.look(ctx, first, p, now) {
		r.next = time.Now().Add(between)
	}
	return 0
}

// look computes the status of a pod or PodIntent, and writes it if the API server shows another. It reports whether
// it asked the API server.
func (r *reporter) look(ctx context.Context, id string, p *reported, now time.Time) (asked bool) {
	path, name := splitID(id)
	v, ok := r.view(path)
	if name != "" {
		one, there := v.part(name)
		if !there || v.left || v.pod != nil && v.pod.Ended && !r.attached(v.pod) {
			delete(r.reported, id)
			return false
		}
		return r.lookAtIntent(ctx, v.pod, one, p, now)
	}
	if !ok || v.pod == nil || v.left || v.pod.Ended || !v.pod.Deleted.IsZero() && !r.attached(v.pod) {
		delete(r.reported, id)
		return false
	}
	if p.waits(string(v.pod.UID), now) {
		return false
	}
	if strings.TrimSpace(v.pod.Intent) == "" && len(v.parts) == 0 {
		networks := r.networks(v.pod)
		if v.pod.Status == "" && v.pod.Ready == (condition{}) && v.pod.Networks == networks {
			if networks == "" {
				delete(r.reported, id)
			}
			return false
		}
		if !r.isComplete() { // the pod may have PodIntents
			return false
		}
		if next := p.wrote.Add(pauseSame); p.networks == networks && now.Before(next) { // somebody else writes it too
			p.next = next
			return false
		}
		p.networks = networks
		return r.send(p, nil, now, func() error { return r.patch(ctx, v.pod, nil) })
	}
	st, err := r.statusOf(ctx, v)
	if err != nil {
		return false // the engine stops
	}
	networks := r.networks(v.pod)
	shows := func(st Status) bool { return v.pod.shows(st) && v.pod.Networks == networks }
	if p.networks != networks { // it is not delayed like a status that others have changed
		p.networks, p.sent = networks, Status{}
	}
	if p.needsWrite(&st, shows, now) {
		asked = r.send(p, &st, now, func() error { return r.patch(ctx, v.pod, &st) })
	} else if p.fullAt.IsZero() {
		p.told = p.failed // an earlier run has told it
	}
	return r.tell(ctx, v.pod, p, st, now) || asked
}

// tell reports by an event that the network of a pod fails or has recovered since the last event. If it fails and recovers
// all the time, tell reports its state at times only. It reports whether it asked the API server.
func (r *reporter) tell(ctx context.Context, pod *Pod, p *reported, st Status, now time.Time) (asked bool) {
	if p.failed == p.told {
		return false
	}
	if next := p.fullAt.Add(-(eventBurst - 1) * eventPause); now.Before(next) {
		if p.next.IsZero() || next.Before(p.next) {
			p.next = next
		}
		return false
	}
	if p.told = p.failed; p.fullAt.Before(now) {
		p.fullAt = now
	}
	p.fullAt = p.fullAt.Add(eventPause)
	r.event(ctx, pod, st)
	return true
}

// lookAtIntent does what look does, for a PodIntent. pod is nil if the API server has no such pod on the node.
func (r *reporter) lookAtIntent(ctx context.Context, pod *Pod, one part, p *reported, now time.Time) (asked bool) {
	if p.waits(string(one.intent.UID), now) {
		return false
	}
	st, err := r.statusOfPart(ctx, pod, one)
	if err != nil {
		return false // the engine stops
	}
	if !p.needsWrite(&st, one.intent.shows, now) {
		return false
	}
	return r.send(p, &st, now, func() error { return r.patchIntent(ctx, one.intent, st) })
}

// waits reports whether a write of this object failed so recently that it is not tried again yet.
func (p *reported) waits(uid string, now time.Time) bool {
	if uid != p.uid {
		*p = reported{uid: uid}
	}
	if now.Before(p.again) {
		p.next = p.again
		return true
	}
	return false
}

// needsWrite reports whether a status is to be written now, and sets its time. shows reports whether the API server has
// it. A status that is to be written later sets next.
func (p *reported) needsWrite(st *Status, shows func(Status) bool, now time.Time) bool {
	if !st.same(p.last) {
		if st.Since = now; st.State == p.last.State {
			st.Since = p.last.Since
		}
		p.last = *st
	}
	*st = p.last
	switch {
	case shows(*st):
		p.failed = st.State == StateFailed
		return false
	case st.State != StateReady && now.Sub(st.Since) < settle:
		p.next = st.Since.Add(settle)
		return false
	case p.sent.State == st.State && p.sent.Observed == st.Observed && now.Sub(p.wrote) < pauseSame:
		p.next = p.wrote.Add(pauseSame)
		return false
	case now.Sub(p.wrote) < pause:
		p.next = p.wrote.Add(pause)
		return false
	}
	return true
}

// send writes a status, or removes it if st is nil.
func (r *reporter) send(p *reported, st *Status, now time.Time, write func() error) (asked bool) {
	err := write()
	r.noteWrite(err)
	switch {
	case err == nil:
		p.wrote, p.wait = now, 0
		if st != nil {
			p.sent = *st
			if st.State != StatePending {
				p.failed = st.State == StateFailed
			}
		}
	case mirror.IsGone(err): // the object was deleted, or replaced by another with its name
	default:
		p.wait = min(max(2*p.wait, firstWrite), lastWrite)
		p.again = now.Add(p.wait)
		p.next = p.again
	}
	return true
}
