package kubernetes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// What the agent writes to pods.
const (
	// StatusAnnotation holds a [Status] in JSON.
	StatusAnnotation = "plumb.net/status"
	// ReadyCondition is True while all that a pod wants is configured. A pod can name it as a readiness gate.
	ReadyCondition = "plumb.net/NetworkReady"
)

// States of the network of a pod.
const (
	StateReady   = "ready"
	StatePending = "pending"
	StateFailed  = "failed"
)

// maxMessage bounds a message in bytes.
const maxMessage = 1024

// Status is how the network of a pod is.
type Status struct {
	// Observed is a digest of the annotation that the status is about.
	Observed string `json:"observed"`
	State    string `json:"state"`
	// Reason is the root of what keeps the network from being ready, in the names of the annotation.
	Reason string `json:"reason,omitempty"`
	// Since is when the state began.
	Since time.Time `json:"since"`
}

// same reports whether two statuses differ in their times at most.
func (s Status) same(o Status) bool {
	return s.Observed == o.Observed && s.State == o.State && s.Reason == o.Reason
}

// condition is the condition of a status.
func (s Status) condition() condition {
	c := condition{Type: ReadyCondition, Status: "False", Reason: "Pending", Message: s.Reason}
	switch s.State {
	case StateReady:
		c.Status, c.Reason = "True", "Configured"
	case StateFailed:
		c.Reason = "Failed"
	}
	return c
}

// shows reports whether the API server has a status as it should be, except for its time.
func (p *Pod) shows(s Status) bool {
	var is Status
	return json.Unmarshal([]byte(p.Status), &is) == nil && is.same(s) && p.Ready == s.condition()
}

// digest is that of an annotation.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%x", sum[:6])
}

// Engine is the scheduler, as far as statuses are read of it.
type Engine interface {
	Watch(prefixes ...scheduler.Key) *scheduler.Watcher
	List(ctx context.Context, prefixes ...scheduler.Key) ([]scheduler.Status, error)
	Why(ctx context.Context, k scheduler.Key) (scheduler.Cause, error)
}

// statusOf returns how the network of a pod is.
func (s *Source) statusOf(ctx context.Context, v view) (Status, error) {
	st := Status{Observed: digest(v.pod.Intent), State: StateReady}
	if v.wrong != nil {
		st.State, st.Reason = StateFailed, short(v.wrong.Error())
		return st, nil
	}
	keys := slices.Clone(v.keys)
	for _, k := range v.keys {
		if name, ok := strings.CutPrefix(string(k), models.KindInterface+"/"); ok {
			keys = append(keys, scheduler.Key(models.AddressPrefix(name)))
		}
	}
	if len(keys) == 0 {
		return st, nil
	}
	all, err := s.opts.Engine.List(ctx, keys...)
	if err != nil {
		return st, err
	}
	// Of equal ones what the pod itself names comes before what is derived from it.
	slices.SortStableFunc(all, func(a, b scheduler.Status) int {
		return cmp.Or(severity(b.State)-severity(a.State), strings.Compare(string(a.Base), string(b.Base)))
	})
	if len(all) == 0 || severity(all[0].State) == 0 {
		return st, nil
	}
	worst := all[0]
	if st.State = StatePending; severity(worst.State) > 1 {
		st.State = StateFailed
	}
	reason := worst.Reason
	if why, err := s.opts.Engine.Why(ctx, worst.Key); err == nil && len(why.Roots) > 0 && worst.State == scheduler.Pending {
		reason = cmp.Or(why.Roots[0].Text, reason)
		if why.Roots[0].Key == v.pod.namespaceKey() {
			reason = "no runtime has attached the pod"
		}
	}
	text := fmt.Sprintf("%s is %s: %s", worst.Key, worst.State, reason)
	st.Reason = short(strings.ReplaceAll(text, v.pod.keyName(""), ""))
	return st, nil
}

// severity orders states: 0 is configured, 2 and more do not get better by waiting for something else.
func severity(s scheduler.State) int {
	switch s {
	case scheduler.Configured:
		return 0
	case scheduler.InvalidState, scheduler.Failed:
		return 3
	case scheduler.Retrying:
		return 2
	}
	return 1
}

func short(text string) string {
	if len(text) > maxMessage {
		return strings.ToValidUTF8(text[:maxMessage-3], "") + "…"
	}
	return text
}

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
	pods  map[string]*reported // by path
	// next is the earliest time of the next write.
	next time.Time
}

// reported is what is known of the status of one pod.
type reported struct {
	uid string
	// next is when the pod is looked at again; zero: when something changes.
	next time.Time
	// last is the last computed status.
	last  Status
	wrote time.Time
	sent  Status
	wait  time.Duration // after a failure
	again time.Time     // the earliest time of the next try after a failure
	// failed: the last state that was written was StateFailed.
	failed bool
}

func newReporter(s *Source) *reporter {
	return &reporter{Source: s, patch: s.follow.patchStatus, event: s.follow.event, pods: map[string]*reported{}}
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
				r.due(r.pathOf(base), time.Now())
			}
		case <-r.reports:
			for path := range r.takeTouched() {
				r.due(path, time.Now())
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

// due has a pod looked at, unless that is to be earlier anyway.
func (r *reporter) due(path string, at time.Time) {
	if path == "" {
		return
	}
	p := r.pods[path]
	if p == nil {
		p = &reported{}
		r.pods[path] = p
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
	for _, path := range slices.Sorted(maps.Keys(r.pods)) {
		if at := r.pods[path].next; !at.IsZero() && (first == "" || at.Before(r.pods[first].next)) {
			first = path
		}
	}
	if first == "" {
		return time.Hour
	}
	if wait := time.Until(r.pods[first].next); wait > 0 {
		return wait
	}
	p := r.pods[first]
	p.next = time.Time{}
	if r.look(ctx, first, p, now) {
		r.next = time.Now().Add(between)
	}
	return 0
}

// look computes the status of a pod and writes it if the API server shows another. It reports whether it asked
// the API server.
func (r *reporter) look(ctx context.Context, path string, p *reported, now time.Time) (asked bool) {
	v, ok := r.view(path)
	if !ok || v.left || v.pod.Ended || !v.pod.Deleted.IsZero() && !r.attached(v.pod) {
		delete(r.pods, path)
		return false
	}
	if uid := string(v.pod.UID); uid != p.uid {
		*p = reported{uid: uid}
	}
	if now.Before(p.again) {
		p.next = p.again
		return false
	}
	if strings.TrimSpace(v.pod.Intent) == "" {
		if v.pod.Status == "" && v.pod.Ready == (condition{}) {
			delete(r.pods, path)
			return false
		}
		return r.send(ctx, v.pod, p, nil, now)
	}
	st, err := r.statusOf(ctx, v)
	if err != nil {
		return false // the engine stops
	}
	if !st.same(p.last) {
		if st.Since = now; st.State == p.last.State {
			st.Since = p.last.Since
		}
		p.last = st
	}
	st = p.last
	switch {
	case v.pod.shows(st):
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
	return r.send(ctx, v.pod, p, &st, now)
}

// send writes a status, or removes it if st is nil.
func (r *reporter) send(ctx context.Context, pod *Pod, p *reported, st *Status, now time.Time) (asked bool) {
	err := r.patch(ctx, pod, st)
	r.noteWrite(err)
	switch {
	case err == nil:
		p.wrote, p.wait = now, 0
		if st != nil {
			p.sent = *st
			if failed := st.State == StateFailed; failed != p.failed && st.State != StatePending {
				p.failed = failed
				r.event(ctx, pod, *st)
			}
		}
	case isGone(err): // another pod has the name now, or none has
	default:
		p.wait = min(max(2*p.wait, firstWrite), lastWrite)
		p.again = now.Add(p.wait)
		p.next = p.again
	}
	return true
}
