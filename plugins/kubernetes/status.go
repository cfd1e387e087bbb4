package kubernetes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// The annotation and the conditions that the agent writes.
const (
	// StatusAnnotation holds a [Status] in JSON.
	StatusAnnotation = "plumb.net/status"
	// ReadyCondition is True while all that a pod wants is configured. A pod can name it as a readiness gate.
	ReadyCondition = "plumb.net/NetworkReady"
	// IntentReadyCondition is the condition of a PodIntent. It is True while all values of the PodIntent are configured.
	IntentReadyCondition = "Ready"
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
	// Observed is a digest of the annotation, and of the PodIntents of the pod if there are any.
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

// digest returns a digest of the annotation of a pod and of its PodIntents.
func (v view) digest() string {
	text := v.pod.Intent
	for _, one := range v.parts {
		text += fmt.Sprintf("\n%s %d", one.intent.UID, one.intent.Generation)
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%x", sum[:6])
}

// Engine is the part of the scheduler that the source reads statuses from.
type Engine interface {
	Watch(prefixes ...scheduler.Key) *scheduler.Watcher
	List(ctx context.Context, prefixes ...scheduler.Key) ([]scheduler.Status, error)
	Why(ctx context.Context, k scheduler.Key) (scheduler.Cause, error)
}

// statusOf returns how the network of a pod is.
func (s *Source) statusOf(ctx context.Context, v view) (st Status, err error) {
	if v.wrong != nil {
		st.State, st.Reason = StateFailed, short(v.wrong.Error())
	} else if st, err = s.statusOfKeys(ctx, v.pod, v.keys); err != nil {
		return st, err
	}
	st.Observed = v.digest()
	return st, nil
}

// statusOfKeys returns how some keys of a pod are, without Observed.
func (s *Source) statusOfKeys(ctx context.Context, pod *Pod, wanted []scheduler.Key) (Status, error) {
	st := Status{State: StateReady}
	keys := slices.Clone(wanted)
	for _, k := range wanted {
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
	// With equal states, the keys of the pod precede the keys that are derived from them.
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
		if why.Roots[0].Key == pod.namespaceKey() {
			reason = "no runtime has attached the pod"
		}
	}
	text := fmt.Sprintf("%s is %s: %s", worst.Key, worst.State, reason)
	st.Reason = short(strings.ReplaceAll(text, pod.keyName(""), ""))
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

// statusOfPart returns how the values of a PodIntent are. pod is nil if the API server has no such pod on the node.
func (s *Source) statusOfPart(ctx context.Context, pod *Pod, one part) (st Status, err error) {
	switch {
	case one.wrong != nil:
		st.State, st.Reason = StateFailed, short(one.wrong.Error())
	case one.waits != "":
		st.State, st.Reason = StatePending, short(one.waits)
	case one.refused != "":
		st.State, st.Reason = StateFailed, short(one.refused)
	default:
		st, err = s.statusOfKeys(ctx, pod, one.keys)
	}
	st.Observed = strconv.FormatInt(one.intent.Generation, 10)
	return st, err
}

// intentCondition is the condition of a PodIntent with a status.
func (i *PodIntent) intentCondition(s Status) intentCondition {
	c := intentCondition{s.condition(), i.Generation}
	c.Type = IntentReadyCondition
	return c
}

// shows reports whether the API server has a status as it should be, except for its time.
func (i *PodIntent) shows(s Status) bool { return i.Ready == i.intentCondition(s) }
