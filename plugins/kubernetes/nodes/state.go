package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/plumb-net/plumb/plugins/kubernetes/readiness"
)

// States of a NodeIntent on a node.
const (
	stateReady    = readiness.Ready
	statePending  = readiness.Pending // applied, and values wait for something
	stateFailed   = readiness.Failed
	stateWaiting  = "waiting"  // for the turn of the node
	stateApplying = "applying" // and not yet kept
	stateReverted = "reverted"
)

// readyCondition is the type of the condition of NodeIntents and NodeIntentStates.
const readyCondition = "Ready"

// conditionReasons are the reasons of the condition by the state.
var conditionReasons = map[string]string{stateReady: "Configured", statePending: "Pending", stateFailed: "Failed", stateWaiting: "Waiting",
	stateApplying: "Applying", stateReverted: "Reverted"}

const (
	// stateSpacing is the least time between two writes of one NodeIntentState with the same state.
	stateSpacing = time.Second
	// stateRefresh is the age at which the reason of a state other than ready is computed again: the root cause may be a
	// key of others.
	stateRefresh = 30 * time.Second
	// maxShown bounds the keys of a NodeIntentState, as its CRD does.
	maxShown = 4096
	// fieldManager is the manager of the fields that the agent applies.
	fieldManager = "plumb-agent"
)

// stateOf returns the status of a NodeIntent on this node.
func (s *Source) stateOf(ctx context.Context, i *Intent) stateStatus {
	r := s.rollouts[i.Name]
	v := s.verdict(ctx, i.Name)
	st := stateStatus{State: v.State, Reason: v.Reason, NodeIntentUID: i.UID, ObservedGeneration: i.Generation, AppliedGeneration: r.applied()}
	wrong := s.check(i.Name, i.Text)
	switch {
	case wrong != nil:
		st.State, st.Reason = stateFailed, short(wrong)
	case r.Reverted.is(i):
		st.State, st.Reason = stateReverted, r.Reason
	case !r.counts().is(i):
		st.State, st.Reason = stateWaiting, waitReason(i)
	case r.Trial != nil && v.State == readiness.Pending:
		st.State = stateApplying
	case r.Trial != nil && v.State == readiness.Ready:
		_, trouble := s.calls.worked(i)
		st.State, st.Reason = stateApplying, trouble
	case v.State == readiness.Ready:
		st.Reason = ""
	}
	for _, k := range v.All {
		one := keyState{Key: string(k.Key), State: k.State.String()}
		if k.State.String() != "configured" {
			one.Reason = readiness.Message(k.Reason)
		}
		st.Keys = append(st.Keys, one)
	}
	if len(st.Keys) > maxShown { // the worst come first
		st.Keys = st.Keys[:maxShown]
	}
	slices.SortFunc(st.Keys, func(a, b keyState) int { return strings.Compare(a.Key, b.Key) })
	st.Reason = readiness.Message(st.Reason)
	return st
}

// waitReason returns why it is not the turn of the node.
func waitReason(i *Intent) string {
	var nodes []string
	for _, t := range i.Status.Applying {
		nodes = append(nodes, t.Node)
	}
	if len(nodes) == 0 {
		return "waiting to apply the change"
	}
	return fmt.Sprintf("waiting for nodes %s; at most %s nodes may apply the change at once", strings.Join(nodes, ", "), i.MaxUnavailable.String())
}

// same reports whether two statuses differ in their times at most.
func (st stateStatus) same(o stateStatus) bool {
	return st.State == o.State && st.Reason == o.Reason && st.NodeIntentUID == o.NodeIntentUID && st.ObservedGeneration == o.ObservedGeneration &&
		st.AppliedGeneration == o.AppliedGeneration && slices.Equal(st.Keys, o.Keys)
}

// condition returns the condition of a status.
func (st stateStatus) condition(since metav1.Time) metav1.Condition {
	c := metav1.Condition{Type: readyCondition, Status: metav1.ConditionFalse, Reason: conditionReasons[st.State], Message: st.Reason,
		ObservedGeneration: st.ObservedGeneration, LastTransitionTime: since}
	if st.State == stateReady {
		c.Status = metav1.ConditionTrue
	}
	return c
}

// showState writes the NodeIntentState of a NodeIntent, if the API server shows another.
func (s *Source) showState(ctx context.Context, k known, i *Intent, now time.Time) {
	there := s.states.State()
	if k.node == nil || !there.Listed || there.Refused != nil { // the API server deletes a state with its node
		return
	}
	name := stateName(i.Name, s.opts.Node)
	st, shown := s.stateOf(ctx, i), s.own(i)
	if st.State != stateReady {
		s.by(now.Add(stateRefresh))
	}
	if shown != nil && shown.status.NodeIntentUID == i.UID && s.rollouts[i.Name].unknown() {
		st.AppliedGeneration = shown.status.AppliedGeneration // its values are still there
	}
	since := metav1.NewTime(now)
	if shown != nil {
		if st.same(shown.status) {
			return
		}
		if len(shown.status.Conditions) > 0 && st.State == shown.status.State {
			since = shown.status.Conditions[0].LastTransitionTime
		}
	}
	if next := s.stateWrote[i.Name].Add(stateSpacing); now.Before(next) && (shown == nil || st.State == shown.status.State) {
		s.by(next)
		return
	}
	st.Conditions = []metav1.Condition{st.condition(since)}
	owner := map[string]any{"apiVersion": "v1", "kind": nodeResource.Kind, "name": k.node.Name, "uid": k.node.UID}
	metadata := map[string]any{"name": name, "ownerReferences": []any{owner}}
	body, err := json.Marshal(map[string]any{"apiVersion": group.String(), "kind": stateResource.Kind, "metadata": metadata,
		"spec": stateSpec{NodeIntent: i.Name, NodeName: s.opts.Node}, "status": st})
	if err != nil {
		return
	}
	s.stateWrote[i.Name] = now
	s.write(ctx, "state "+i.Name, func(ctx context.Context) error {
		now := &stateObject{}
		err := s.followStates.Request(ctx, func(ctx context.Context, c *rest.RESTClient) error {
			return c.Patch(types.ApplyPatchType).Resource(stateResource.Resource).Name(name).Param("fieldManager", fieldManager).Param("force", "true").
				Body(body).Do(ctx).Into(now)
		})
		if err == nil {
			s.states.Look(now)
		}
		return err
	})
}

// forget ends the turns and deletes the NodeIntentStates of NodeIntents that do not select the node.
func (s *Source) forget(ctx context.Context, k known) {
	there := s.intents.State()
	if k.node == nil || !k.answered || k.held || !there.Listed || there.Refused != nil || there.Lost {
		return
	}
	selected := map[string]bool{}
	for _, i := range k.list {
		selected[i.Name] = true
	}
	for _, i := range s.intents.All() {
		if !selected[i.Name] && i.holds(s.opts.Node) {
			s.endTurn(ctx, i)
		}
	}
	deleted := map[types.UID]bool{}
	for _, st := range s.states.All() {
		if s.calls.deleted[st.uid] {
			deleted[st.uid] = true // until the store knows
			continue
		}
		if selected[st.intent] {
			continue
		}
		s.start(ctx, "delete "+st.name, func(ctx context.Context) error {
			body, err := json.Marshal(metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"},
				Preconditions: metav1.NewUIDPreconditions(string(st.uid))})
			if err != nil {
				return err
			}
			return s.followStates.Request(ctx, func(ctx context.Context, c *rest.RESTClient) error {
				return c.Delete().Resource(stateResource.Resource).Name(st.name).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
			})
		}, func(err error) {
			if err == nil || apierrors.IsNotFound(err) {
				s.calls.deleted[st.uid] = true
				delete(s.calls.byID, "delete "+st.name)
				err = nil
			}
			if !apierrors.IsConflict(err) { // else it was created again
				s.noteWrite(err)
			}
		})
	}
	s.calls.deleted = deleted
}
