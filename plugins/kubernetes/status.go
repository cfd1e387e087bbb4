package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/plumb-net/plumb/plugins/kubernetes/readiness"
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
	StateReady   = readiness.Ready
	StatePending = readiness.Pending
	StateFailed  = readiness.Failed
)

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

// statusOf returns how the network of a pod is.
func (s *Source) statusOf(ctx context.Context, v view) (st Status, err error) {
	if v.wrong != nil {
		st.State, st.Reason = StateFailed, readiness.Message(v.wrong.Error())
	} else if st, err = s.statusOfKeys(ctx, v.pod, v.keys); err != nil {
		return st, err
	}
	st.Observed = v.digest()
	return st, nil
}

// statusOfKeys returns how some keys of a pod are, without Observed.
func (s *Source) statusOfKeys(ctx context.Context, pod *Pod, wanted []scheduler.Key) (Status, error) {
	v, err := readiness.Of(ctx, s.opts.Engine, wanted)
	st := Status{State: v.State}
	if err != nil || v.State == StateReady {
		return st, err
	}
	if v.Root == pod.namespaceKey() {
		v.Reason = "no runtime has attached the pod"
	}
	text := fmt.Sprintf("%s is %s: %s", v.Worst.Key, v.Worst.State, v.Reason)
	st.Reason = readiness.Message(strings.ReplaceAll(text, pod.keyName(""), ""))
	return st, nil
}

// statusOfPart returns how the values of a PodIntent are. pod is nil if the API server has no such pod on the node.
func (s *Source) statusOfPart(ctx context.Context, pod *Pod, one part) (st Status, err error) {
	switch {
	case one.wrong != nil:
		st.State, st.Reason = StateFailed, readiness.Message(one.wrong.Error())
	case one.waits != "":
		st.State, st.Reason = StatePending, readiness.Message(one.waits)
	case one.refused != "":
		st.State, st.Reason = StateFailed, readiness.Message(one.refused)
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
