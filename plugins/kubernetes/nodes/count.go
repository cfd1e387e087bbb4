package nodes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumb-net/plumb/plugins/kubernetes/readiness"
)

// counts are the numbers of nodes by the state of a NodeIntent.
type counts struct {
	Selected int `json:"selected"`
	Ready    int `json:"ready"`
	Pending  int `json:"pending"`
	Waiting  int `json:"waiting"`
	Applying int `json:"applying"`
	Failed   int `json:"failed"`
	Reverted int `json:"reverted"`
}

const (
	// countDelay and countSpread are when an agent counts after its own state has changed. The last agent whose state
	// changes counts all others, so the counts end right.
	countDelay  = 200 * time.Millisecond
	countSpread = time.Second
	// recount is the age of a count at which an agent counts again, in case states have disappeared.
	recount = 10 * time.Minute
)

// countSoon schedules a count of the nodes of a NodeIntent.
func (s *Source) countSoon(name string) {
	soon := time.Now().Add(countDelay + rand.N(countSpread))
	if at, due := s.calls.countAt[name]; name != "" && (!due || at.After(soon)) {
		s.calls.countAt[name] = soon
	}
}

// showCounts counts the nodes of the NodeIntents that are due.
func (s *Source) showCounts(ctx context.Context, now time.Time) {
	for name, at := range s.calls.countAt {
		i := s.intents.Get("/" + name)
		switch {
		case i == nil:
			delete(s.calls.countAt, name)
		case now.Before(at):
			s.by(at)
		default:
			if s.start(ctx, "count "+name, func(ctx context.Context) error { return s.count(ctx, i) }, func(err error) {
				if err != nil { // another agent has changed the NodeIntent, or the server does not answer
					s.calls.countAt[name] = time.Now().Add(countDelay)
				}
				if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
					s.noteWrite(err)
				}
			}) {
				s.calls.countAt[name] = now.Add(recount/2 + rand.N(recount/2))
			}
		}
	}
}

// count writes the counts of a NodeIntent, if the API server shows others.
func (s *Source) count(ctx context.Context, i *Intent) error {
	states, err := s.listStates(ctx, i.Name)
	if err != nil {
		return err
	}
	n, c := summary(i, states)
	if len(i.Status.Conditions) > 0 {
		was := i.Status.Conditions[0]
		if c.Status == was.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
		if n == i.Status.Nodes && c == was {
			return nil
		}
	}
	return s.patchStatus(ctx, i, map[string]any{"nodes": n, "conditions": []metav1.Condition{c}})
}

// summary counts the nodes of a NodeIntent, and returns its condition.
func summary(i *Intent, states []stateObject) (n counts, c metav1.Condition) {
	n.Selected = len(states)
	slices.SortFunc(states, func(a, b stateObject) int { return strings.Compare(a.Spec.NodeName, b.Spec.NodeName) })
	first := map[string]string{} // the first node of a state, and its reason
	for _, o := range states {
		st := o.Status.State
		if o.Status.ObservedGeneration != i.Generation || o.Status.NodeIntentUID != i.UID {
			st = stateWaiting
		}
		switch st {
		case stateReady:
			n.Ready++
		case statePending:
			n.Pending++
		case stateApplying:
			n.Applying++
		case stateFailed:
			n.Failed++
		case stateReverted:
			n.Reverted++
		default:
			n.Waiting++
		}
		if first[st] == "" {
			first[st] = fmt.Sprintf("; on %s it is %s: %s", o.Spec.NodeName, st, o.Status.Reason)
		}
	}
	c = metav1.Condition{Type: readyCondition, Status: metav1.ConditionFalse, Reason: "Progressing", ObservedGeneration: i.Generation,
		LastTransitionTime: metav1.Now().Rfc3339Copy(), Message: fmt.Sprintf("%d of %d nodes are ready", n.Ready, n.Selected)}
	switch {
	case n.Reverted > 0:
		c.Reason, c.Message = "Reverted", c.Message+first[stateReverted]
	case n.Failed > 0:
		c.Reason, c.Message = "Failed", c.Message+first[stateFailed]
	case n.Pending > 0:
		c.Message += first[statePending]
	case n.Ready == n.Selected:
		c.Status, c.Reason = metav1.ConditionTrue, "Configured"
	}
	c.Message = readiness.Message(c.Message)
	return n, c
}
