package docker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/fsouza/go-dockerclient"

	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/docker/dockertest"
)

// churn moves the containers of an engine at random, with several workers.
type churn struct {
	b      *bench
	client *client.Client
	mu     sync.Mutex
	ids    []string
	names  int
	ops    int
}

func newChurn(b *bench) *churn {
	c, err := client.NewClient(b.Host)
	if err != nil {
		b.t.Fatal(err)
	}
	c.SkipServerVersionCheck = true
	return &churn{b: b, client: c}
}

// run churns with some workers until ctx ends.
func (c *churn) run(ctx context.Context, workers int) {
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 7))
			for ctx.Err() == nil {
				c.act(ctx, r)
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(r.IntN(200)) * time.Millisecond):
				}
			}
		})
	}
	all.Wait()
}

var commands = [][]string{{"sleep", "100000"}, {"sleep", "100000"}, {"sleep", "0.3"}, {"true"}, {"sh", "-c", "exit 7"}}

func (c *churn) create(ctx context.Context, r *rand.Rand, most int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ids) >= most || len(c.ids) > 3 && r.IntN(3) > 0 {
		return ""
	}
	c.names++
	config := client.CreateContainerOptions{
		Name: fmt.Sprintf("churn%d", c.names), Context: ctx,
		Config:     &client.Config{Image: dockertest.Image, Cmd: commands[r.IntN(len(commands))], StopSignal: "KILL", Env: []string{fmt.Sprintf("MICROSERVICE_LABEL=s%d", r.IntN(4))}},
		HostConfig: &client.HostConfig{NetworkMode: "none", AutoRemove: r.IntN(5) == 0},
	}
	if !config.HostConfig.AutoRemove && r.IntN(4) == 0 {
		config.HostConfig.RestartPolicy = client.RestartPolicy{Name: "on-failure", MaximumRetryCount: 2}
	}
	made, err := c.client.CreateContainer(config)
	if err != nil {
		return ""
	}
	c.ids = append(c.ids, made.ID)
	return made.ID
}

// act does one thing to one container. That it may be of no use, since another
// worker was quicker, is part of it.
func (c *churn) act(ctx context.Context, r *rand.Rand) {
	id := c.create(ctx, r, 25)
	if id != "" {
		_ = c.client.StartContainerWithContext(id, nil, ctx)
		return
	}
	c.mu.Lock()
	if len(c.ids) == 0 {
		c.mu.Unlock()
		return
	}
	id = c.ids[r.IntN(len(c.ids))]
	c.ops++
	c.mu.Unlock()
	switch r.IntN(9) {
	case 0:
		_ = c.client.KillContainer(client.KillContainerOptions{ID: id, Signal: client.SIGKILL, Context: ctx})
	case 1:
		_ = c.client.StopContainerWithContext(id, 0, ctx)
	case 2, 3:
		_ = c.client.StartContainerWithContext(id, nil, ctx)
	case 4:
		_ = c.client.RestartContainer(id, 0)
	case 5:
		_ = c.client.RenameContainer(client.RenameContainerOptions{ID: id, Name: fmt.Sprintf("name%d", r.IntN(10)), Context: ctx})
	case 6:
		if c.client.PauseContainer(id) == nil {
			time.Sleep(50 * time.Millisecond)
			_ = c.client.UnpauseContainer(id)
		}
	case 7:
		c.remove(id)
	case 8:
		if x, err := c.client.CreateExec(client.CreateExecOptions{Container: id, Cmd: []string{"true"}, Context: ctx}); err == nil {
			_ = c.client.StartExec(x.ID, client.StartExecOptions{Detach: true, Context: ctx})
		}
	}
}

func (c *churn) remove(id string) {
	c.mu.Lock()
	c.ids = slices.DeleteFunc(c.ids, func(o string) bool { return o == id })
	c.mu.Unlock()
	_ = c.client.RemoveContainer(client.RemoveContainerOptions{ID: id, Force: true})
}

// settle waits until nothing moves by itself any more.
func (c *churn) settle() {
	c.b.t.Helper()
	last := ""
	c.b.eventually(func() error {
		now, err := c.b.Try("ps", "--all", "--no-trunc", "--format", "{{.ID}} {{.State}} {{.Names}}")
		if err != nil {
			return err
		}
		time.Sleep(time.Second)
		if now != last || strings.Contains(now, "restarting") {
			last = now
			return fmt.Errorf("containers still move:\n%s", now)
		}
		return nil
	})
}

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

// TestRow05_Churn: after twenty seconds in which containers are run, killed,
// renamed, restarted and removed, the picture is the engine's, and of each run
// that the engine had one start and one death were told, with its exit code.
func TestRow05_Churn(t *testing.T) {
	b := newBench(t)
	c, w := newChurn(b), watchEngine(b)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	c.run(ctx, 5)
	c.settle()
	b.agree()
	b.eventually(func() error { return b.tellsAs(w) }) // hints may be late, to either
	w.done()
	t.Logf("%d containers, %d operations, %d events", len(w.told), c.ops, len(b.events))
	if len(w.told) < 5 {
		t.Error("too little happened")
	}
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

// TestRow19_Faults: the same with an engine that answers late, wrong and not at
// all, whose events are dropped, doubled, held and cut.
func TestRow19_Faults(t *testing.T) {
	b := newProxied(t)
	c := newChurn(b)
	b.play(c, 15*time.Second, 5, nil)
}

// play churns with faults that change every half second, ends them, and then
// holds the tracker against the engine.
func (b *bench) play(c *churn, d time.Duration, workers int, also func(ctx context.Context)) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), d)
	defer cancel()
	var faults sync.WaitGroup
	faults.Go(func() {
		r := rand.New(rand.NewPCG(3, 4))
		for ctx.Err() == nil {
			b.proxy.Set(dockertest.Faults{
				Delay: time.Duration(r.IntN(2)*r.IntN(300)) * time.Millisecond, ListDelay: time.Duration(r.IntN(2)*r.IntN(3)) * time.Second,
				FailInspect: r.IntN(4), FailList: r.IntN(3), DropEvent: r.IntN(4), DoubleEvent: r.IntN(4), HoldEvents: r.IntN(4) == 0,
			})
			if r.IntN(4) == 0 {
				b.proxy.Cut()
			}
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
	if also != nil {
		faults.Go(func() { also(ctx) })
	}
	c.run(ctx, workers)
	faults.Wait()
	b.proxy.Set(dockertest.Faults{})
	c.settle()
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
	b.t.Logf("%d operations, %d events; %d hints, %d missed, %d lists, %d streams, %d inspects, %d of them failed",
		c.ops, len(b.events), h.Hints, h.Missed, h.Lists, h.Connects, h.Inspects, h.InspectFails)
}

// TestRow19_EventsLost: while nobody reads the events, the engine has more of
// them than it keeps. Afterwards everything is known all the same.
func TestRow19_EventsLost(t *testing.T) {
	b := newProxied(t)
	c := newChurn(b)
	victim := b.Run(labelled("web", "--network", "none")...)
	b.serves("web", victim)
	b.proxy.Set(dockertest.Faults{HoldEvents: true})
	time.Sleep(50 * time.Millisecond)
	began := time.Now()
	// Once its buffers are full the engine waits a tenth of a second with each.
	for i := 0; i < 2500 && time.Since(began) < 20*time.Second; i++ {
		err := c.client.RenameContainer(client.RenameContainerOptions{ID: victim, Name: fmt.Sprintf("n%d", i)})
		if err != nil {
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
