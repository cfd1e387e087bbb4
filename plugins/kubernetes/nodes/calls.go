package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/plumb-net/plumb/plugins/kubernetes/mirror"
)

const (
	// firstRetry and lastRetry bound the time until a call that failed is tried again.
	firstRetry = time.Second
	lastRetry  = time.Minute
	// spread is the time over which the nodes that wait for a turn try to get it.
	spread = 500 * time.Millisecond
	// deadTurn is the age of a turn at which the others look if its node still exists.
	deadTurn = 5 * time.Minute
	// probeTime bounds one probe.
	probeTime = 10 * time.Second
)

// calls are the requests and probes that run beside the source. Run uses it; only its goroutines run elsewhere.
type calls struct {
	running sync.WaitGroup
	done    chan func()
	byID    map[string]*call
	// claimAt is when the node tries to get its turn, by the name of the NodeIntent.
	claimAt map[string]time.Time
	// countAt is when the nodes of a NodeIntent are counted, by its name.
	countAt map[string]time.Time
	// probed is the result of the last probes of a generation, by the name of the NodeIntent.
	probed map[string]probed
	// round numbers the runs of probes, and rounds has the number of the run that counts, by the name of the NodeIntent.
	round  int
	rounds map[string]int
	// deleted are the UIDs of NodeIntentStates that were deleted, while the store has them.
	deleted map[types.UID]bool
}

// call is a call that runs, or failed.
type call struct {
	runs bool
	wait time.Duration
	next time.Time
}

// probed is a result of probes.
type probed struct {
	uid        types.UID
	generation int64
	err        error
}

func newCalls() calls {
	return calls{done: make(chan func()), byID: map[string]*call{}, claimAt: map[string]time.Time{}, countAt: map[string]time.Time{}, probed: map[string]probed{},
		rounds: map[string]int{}, deleted: map[types.UID]bool{}}
}

func (c *calls) wait() { c.running.Wait() }

// forget drops the state of a NodeIntent that no longer concerns the node.
func (c *calls) forget(name string) {
	delete(c.claimAt, name)
	delete(c.probed, name)
	delete(c.rounds, name)
	for _, id := range []string{"claim " + name, "probe " + name, "state " + name} {
		if one := c.byID[id]; one != nil && !one.runs {
			delete(c.byID, id)
		}
	}
}

// start runs do in a goroutine, unless the call with this ID runs or failed a short time ago. Run calls then with the
// result.
func (s *Source) start(ctx context.Context, id string, do func(context.Context) error, then func(error)) (started bool) {
	c := s.calls.byID[id]
	if c == nil {
		c = &call{}
		s.calls.byID[id] = c
	}
	if c.runs {
		return false
	}
	if time.Now().Before(c.next) {
		s.by(c.next)
		return false
	}
	c.runs = true
	s.calls.running.Go(func() {
		err := do(ctx)
		select {
		case <-ctx.Done():
		case s.calls.done <- func() {
			switch c.runs = false; {
			case err == nil:
				delete(s.calls.byID, id)
			case apierrors.IsConflict(err): // another agent was faster
				c.next = time.Now().Add(spread/10 + rand.N(spread))
			default:
				c.wait = min(max(2*c.wait, firstRetry), lastRetry)
				c.next = time.Now().Add(c.wait)
			}
			then(err)
		}:
		}
	})
	return true
}

// write begins a write to the API server. An error is logged when it is new.
func (s *Source) write(ctx context.Context, id string, do func(context.Context) error) {
	s.start(ctx, id, do, func(err error) {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // another agent was faster, or the object was deleted
			err = nil
		}
		s.noteWrite(err)
	})
}

// claim tries to add the node to status.applying, after a random delay that spreads the nodes.
func (s *Source) claim(ctx context.Context, i *Intent, now time.Time) {
	free := len(i.Status.Applying) < i.most(max(i.Status.Nodes.Selected, 1))
	stale := slices.ContainsFunc(i.Status.Applying, func(t turn) bool { return now.Sub(t.Since.Time) > deadTurn })
	at, set := s.calls.claimAt[i.Name]
	switch {
	case !free && !stale:
		delete(s.calls.claimAt, i.Name)
		if len(i.Status.Applying) > 0 {
			s.by(slices.MinFunc(i.Status.Applying, func(a, b turn) int { return a.Since.Compare(b.Since.Time) }).Since.Add(deadTurn + time.Second))
		}
	case free && (!set || at.After(now.Add(spread))):
		s.calls.claimAt[i.Name] = now.Add(rand.N(spread))
		s.by(s.calls.claimAt[i.Name])
	case !set:
		s.calls.claimAt[i.Name] = now.Add(deadTurn/2 + rand.N(deadTurn/2))
		s.by(s.calls.claimAt[i.Name])
	case now.Before(at):
		s.by(at)
	default:
		full := false
		s.start(ctx, "claim "+i.Name, func(ctx context.Context) (err error) {
			full, err = s.takeTurn(ctx, i)
			return err
		}, func(err error) {
			if full { // the shown counts are wrong
				s.calls.byID["claim "+i.Name] = &call{next: time.Now().Add(lastRetry/2 + rand.N(lastRetry/2))}
				s.countSoon(i.Name)
			}
			if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				s.noteWrite(err)
			}
		})
		delete(s.calls.claimAt, i.Name)
	}
}

// takeTurn adds the node to status.applying, unless it has maxUnavailable entries. It drops old entries of nodes without a
// NodeIntentState: they no longer exist.
func (s *Source) takeTurn(ctx context.Context, i *Intent) (full bool, err error) {
	states, err := s.listStates(ctx, i.Name)
	if err != nil {
		return false, err
	}
	now := time.Now()
	turns := slices.DeleteFunc(slices.Clone(i.Status.Applying), func(t turn) bool {
		return now.Sub(t.Since.Time) > deadTurn && !slices.ContainsFunc(states, func(o stateObject) bool { return o.Spec.NodeName == t.Node })
	})
	if len(turns) >= i.most(len(states)) {
		return true, nil
	}
	return false, s.patchTurns(ctx, i, append(turns, turn{Node: s.opts.Node, Generation: i.Generation, Since: metav1.NewTime(now)}))
}

// endTurn removes the node from those whose turn it is.
func (s *Source) endTurn(ctx context.Context, i *Intent) {
	s.write(ctx, "end "+i.Name, func(ctx context.Context) error {
		turns := slices.DeleteFunc(slices.Clone(i.Status.Applying), func(t turn) bool { return t.Node == s.opts.Node })
		return s.patchTurns(ctx, i, turns)
	})
}

// patchTurns writes the nodes whose turn it is.
func (s *Source) patchTurns(ctx context.Context, i *Intent, turns []turn) error {
	if turns == nil {
		turns = []turn{}
	}
	return s.patchStatus(ctx, i, map[string]any{"applying": turns})
}

// patchStatus writes fields of the status of a NodeIntent. The API server answers 409 if the NodeIntent has changed
// since i.
func (s *Source) patchStatus(ctx context.Context, i *Intent, fields map[string]any) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": i.Version, "uid": i.UID}, "status": fields})
	if err != nil {
		return err
	}
	now := &intentObject{}
	err = s.followIntents.Request(ctx, func(ctx context.Context, c *rest.RESTClient) error {
		return c.Patch(types.MergePatchType).Resource(intentResource.Resource).Name(i.Name).SubResource("status").Body(body).Do(ctx).Into(now)
	})
	if err == nil {
		s.intents.Look(now) // before the watch delivers it
	}
	return err
}

// listStates returns the NodeIntentStates of a NodeIntent on all nodes.
func (s *Source) listStates(ctx context.Context, name string) ([]stateObject, error) {
	var list runtime.Object
	err := s.followStates.Request(ctx, func(ctx context.Context, c *rest.RESTClient) error {
		list = stateResource.List.DeepCopyObject()
		return c.Get().Resource(stateResource.Resource).VersionedParams(&metav1.ListOptions{FieldSelector: "spec.nodeIntent=" + name}, metav1.ParameterCodec).
			Do(ctx).Into(list)
	})
	if err != nil {
		return nil, err
	}
	return list.(*mirror.List[stateObject, *stateObject]).Items, nil
}

// probe runs the probes of a NodeIntent, and then sends a request to the API server, so that a change that cuts the node
// off fails.
func (s *Source) probe(ctx context.Context, i *Intent) {
	var failed error
	s.calls.round++
	round := s.calls.round
	if s.start(ctx, "probe "+i.Name, func(ctx context.Context) error {
		failed = s.runProbes(ctx, i)
		return nil
	}, func(error) {
		if s.calls.rounds[i.Name] != round { // values failed meanwhile
			return
		}
		s.calls.probed[i.Name] = probed{i.UID, i.Generation, failed}
		if failed != nil {
			s.calls.byID["probe "+i.Name] = &call{next: time.Now().Add(firstRetry)}
		}
	}) {
		s.calls.rounds[i.Name] = round
	}
}

func (s *Source) runProbes(ctx context.Context, i *Intent) error {
	for _, p := range i.Probes {
		bounded, cancel := context.WithTimeout(ctx, probeTime)
		err := s.opts.Probe(bounded, p)
		cancel()
		if err != nil {
			return fmt.Errorf("the probe %s failed: %w", p, err)
		}
	}
	return s.followIntents.Request(ctx, func(ctx context.Context, c *rest.RESTClient) error {
		if err := c.Get().Resource(intentResource.Resource).Name(i.Name).Do(ctx).Error(); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("a request to the API server failed: %w", err)
		}
		return nil
	})
}

// worked reports whether the probes of a generation succeeded, and why not.
func (c *calls) worked(i *Intent) (works bool, trouble string) {
	p, ok := c.probed[i.Name]
	switch {
	case !ok || p.uid != i.UID || p.generation != i.Generation:
		return false, "the probes have not run yet"
	case p.err != nil:
		return false, short(p.err)
	}
	return true, ""
}

// forgetWorked drops the results of probes, because values are not configured.
func (c *calls) forgetWorked(i *Intent) {
	delete(c.probed, i.Name)
	delete(c.rounds, i.Name)
}
