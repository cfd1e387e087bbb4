package docker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/docker/dockertest"
)

// witness reads the engine's own events, past the proxy.
type witness struct {
	mu   sync.Mutex
	told map[string][]string // by container: started, died <code>
	done func()
}

func watchEngine(b *bench) *witness {
	b.t.Helper()
	w := &witness{told: map[string][]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", b.Socket)
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/events", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		b.t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			w.note(lines.Bytes())
		}
	}()
	w.done = func() {
		cancel()
		<-over
		_ = resp.Body.Close()
	}
	return w
}

func (w *witness) note(line []byte) {
	var ev struct {
		Type, Action string
		Actor        struct {
			ID         string
			Attributes map[string]string
		}
	}
	if json.Unmarshal(line, &ev) != nil || ev.Type != "container" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch ev.Action {
	case "start":
		w.told[ev.Actor.ID] = append(w.told[ev.Actor.ID], "started")
	case "die":
		w.told[ev.Actor.ID] = append(w.told[ev.Actor.ID], "died "+ev.Actor.Attributes["exitCode"])
	}
}

// storyOf is what the tracker told of one container, in the witness's words,
// with the amendments put in.
func storyOf(events []container.Event) (story []string, err error) {
	at := map[time.Time]int{}
	alive := false
	for i, e := range events {
		first := e.Type == container.Created || e.Type == container.Discovered
		switch {
		case first != (i == 0):
			err = fmt.Errorf("event %d is %v", i, e)
		case e.Type == container.Started && alive, e.Type == container.Died && !e.Amends && !alive:
			err = fmt.Errorf("event %d (%v) is out of turn", i, e)
		case e.Type == container.Started:
			alive = true
			story = append(story, "started")
		case e.Type == container.Died && e.Amends:
			if k, ok := at[e.Run.StartedAt]; ok {
				story[k] = "died " + strconv.Itoa(e.Exit.Code)
			}
		case e.Type == container.Died:
			alive = false
			at[e.Run.StartedAt] = len(story)
			story = append(story, "died "+strconv.Itoa(e.Exit.Code))
		case e.Type == container.Removed && (alive || i < len(events)-1 && !events[i+1].Amends):
			err = fmt.Errorf("event %d (%v) is out of turn", i, e)
		}
		if err != nil {
			return nil, err
		}
	}
	return story, nil
}

// byContainer sorts what was told.
func (b *bench) byContainer() map[string][]container.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string][]container.Event{}
	for _, e := range b.events {
		all[e.ID] = append(all[e.ID], e)
	}
	return all
}

// TestChurn: after a quarter of a minute, or more on a slow machine, in which containers are run, killed,
// renamed, restarted and removed, the picture is the engine's, and of each run
// that the engine had one start and one death were told, with its exit code.
func TestChurn(t *testing.T) {
	b := newBench(t)
	c, w := b.Churn(t, 25), watchEngine(b)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var churning sync.WaitGroup
	churning.Go(func() { c.Run(ctx, 5) })
	time.Sleep(15 * time.Second)
	b.eventually(w.enough)
	cancel()
	churning.Wait()
	c.Settle(t)
	b.agree()
	b.eventually(func() error { return b.tellsAs(w) }) // hints may be late, to either
	w.done()
	t.Logf("%d containers, %d operations, %d events", len(w.told), c.Ops(), len(b.events))
}

// enough reports whether there were some containers.
func (w *witness) enough() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.told); n < 5 {
		return fmt.Errorf("too little happened: only to %d containers", n)
	}
	return nil
}

// tellsAs: of each container was told what the witness heard.
func (b *bench) tellsAs(w *witness) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var bad []error
	told := b.byContainer()
	for id, want := range w.told {
		story, err := storyOf(told[id])
		if err == nil && !slices.Equal(story, want) {
			err = fmt.Errorf("told was %q, the engine says %q", story, want)
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("%.12s: %w\n%v", id, err, told[id]))
		}
	}
	return errors.Join(bad...)
}

// TestFaults: the same with an engine that answers late, wrong and not at
// all, whose events are dropped, doubled, held and cut. The long form, with the
// agent itself and restarts of the engine, is TestSoak of tests/e2e.
func TestFaults(t *testing.T) {
	b := newProxied(t)
	c := b.Churn(t, 25)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	var faults sync.WaitGroup
	faults.Go(func() { b.proxy.Misbehave(ctx) })
	c.Run(ctx, 5)
	faults.Wait()
	c.Settle(t)
	b.agree()
	b.eventually(func() error { // what is told late
		for id, events := range b.byContainer() {
			if _, err := storyOf(events); err != nil {
				return fmt.Errorf("%.12s: %w\n%v", id, err, events)
			}
		}
		return nil
	})
	h := b.tracker.Runtimes()[0]
	t.Logf("%d operations, %d events; %d hints, %d missed, %d lists, %d streams, %d inspects, %d of them failed",
		c.Ops(), len(b.events), h.Hints, h.Missed, h.Lists, h.Connects, h.Inspects, h.InspectFails)
}

// TestEventsLost: while nobody reads the events, the engine has more of
// them than it keeps. Afterwards everything is known all the same.
func TestEventsLost(t *testing.T) {
	b := newProxied(t)
	c := b.Churn(t, 25)
	victim := b.Run(labelled("web", "--network", "none")...)
	b.serves("web", victim)
	b.proxy.Set(dockertest.Faults{HoldEvents: true})
	time.Sleep(50 * time.Millisecond)
	began := time.Now()
	// Once its buffers are full the engine waits a tenth of a second with each.
	for i := 0; i < 2500 && time.Since(began) < 20*time.Second; i++ {
		if err := c.Call(t.Context(), "POST", fmt.Sprintf("containers/%s/rename?name=n%d", victim, i), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	db := b.Run(labelled("db", "--network", "none")...)
	b.Docker("rm", "--force", victim)
	b.agree() // by the lists alone
	b.serves("db", db)
	b.serves("web", "")
	b.proxy.Set(dockertest.Faults{})
	b.agree()
	t.Logf("%+v", b.tracker.Runtimes()[0].Missed)
}
