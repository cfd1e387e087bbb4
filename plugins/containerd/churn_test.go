package containerd_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/containerd/containerdtest"
	"github.com/plumb-net/plumb/plugins/cri/critest"
)

// churnTime is how long TestChurn lets containers come and go, at least.
const churnTime = 20 * time.Second

// TestChurn: containers and pods come, go, pause and die from several sides at
// once while containerd is killed and started again. Two lists later at most
// the tracker agrees with containerd, and it has told of each run one start and
// one end.
func TestChurn(t *testing.T) {
	b := &bench{Engine: containerdtest.Start(t), t: t}
	var told history
	b.observer = told.add
	b.Import("red")
	b.Import("blue")
	b.track(b.Socket, relist)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers sync.WaitGroup
	for i, namespace := range []string{"red", "blue"} {
		workers.Go(func() { b.churn(ctx, namespace, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	workers.Go(func() { b.churnPods(ctx) })
	for range 2 {
		pause(ctx, churnTime/3)
		connects := b.tracker.Runtimes()[0].Connects
		b.Kill()
		pause(ctx, time.Second)
		b.Up()
		b.eventually(func() error {
			if b.tracker.Runtimes()[0].Connects == connects {
				return errors.New("the stream of events was not opened again")
			}
			return nil
		})
	}
	pause(ctx, churnTime/3)
	b.eventually(told.enough)
	stop()
	workers.Wait()

	lists := b.tracker.Runtimes()[0].Lists
	b.eventually(func() error {
		if n := b.tracker.Runtimes()[0].Lists - lists; n < 2 {
			return fmt.Errorf("%d lists since", n)
		}
		return nil
	})
	b.agree()
	if h := b.tracker.Runtimes()[0]; h.State != "known" || h.InError > 0 || h.Connects < 3 {
		t.Errorf("afterwards: %+v", h)
	}
	told.check(t)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// churn does this and that with a few containers. Much of it fails, not only
// while containerd is away.
func (b *bench) churn(ctx context.Context, namespace string, r *rand.Rand) {
	try := func(args ...string) { _, _ = b.Try(append([]string{"--namespace", namespace}, args...)...) }
	for ctx.Err() == nil {
		id := fmt.Sprint("c", r.IntN(4))
		switch r.IntN(7) {
		case 0, 1:
			_ = b.TryRun(namespace, id, labelled(id), "sleep", "100000")
		case 2:
			_ = b.TryRun(namespace, id, nil, "sh", "-c", "exit 3")
		case 3:
			try("tasks", "kill", "--signal", "KILL", id)
		case 4:
			try("tasks", "delete", "--force", id)
			try("containers", "delete", id)
		case 5:
			try("tasks", "pause", id)
			try("tasks", "resume", id)
		case 6:
			try("tasks", "exec", "--exec-id", fmt.Sprint("x", r.Int()), id, "true")
		}
	}
}

// churnPods runs pods, of which every third stays.
func (b *bench) churnPods(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		p := critest.Pod{Name: fmt.Sprint("pod", i)}
		sandbox, err := b.RunPod(ctx, p)
		if err != nil {
			pause(ctx, 100*time.Millisecond)
			continue
		}
		_, _ = b.RunContainer(ctx, sandbox, p, "main", nil)
		_, _ = b.RunContainer(ctx, sandbox, p, "short", nil, "sh", "-c", "exit 1")
		if i%3 != 0 {
			_ = b.RemovePod(ctx, sandbox)
		}
	}
}

// history is what a tracker told.
type history struct {
	mu  sync.Mutex
	all []container.Event
}

func (h *history) add(e container.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, e)
}

// check: a container comes before all else and goes after it, and between them
// starts and ends take turns.
func (h *history) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	type life struct{ there, runs bool }
	lives := map[string]life{}
	count := map[container.EventType]int{}
	for _, e := range h.all {
		if e.Amends {
			continue
		}
		count[e.Type]++
		id := e.Runtime + ":" + e.ID
		l := lives[id]
		var wrong bool
		switch e.Type {
		case container.Created, container.Discovered:
			wrong = l.there
			l = life{there: true, runs: e.Run.Pid != 0}
		case container.Removed:
			wrong = !l.there || l.runs
			l = life{}
		case container.Started:
			wrong = !l.there || l.runs
			l.runs = true
		case container.Died:
			wrong = !l.there || !l.runs
			l.runs = false
		default:
			wrong = !l.there
		}
		if wrong {
			t.Errorf("of %s, out of turn: %+v", id, e)
		}
		lives[id] = l
	}
	t.Log("told: ", count)
}

// enough reports whether all has happened that is to be looked at.
func (h *history) enough() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, want := range []container.EventType{container.Started, container.Died, container.Removed} {
		if !slices.ContainsFunc(h.all, func(e container.Event) bool { return e.Type == want }) {
			return fmt.Errorf("nothing was %s", want)
		}
	}
	return nil
}
