// Package intenttest holds sources of intent to the contract of package intent.
package intenttest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/scheduler"
)

// World is an origin, and makes sources that read it. Each law has a world of its own.
type World struct {
	// New makes a source. Only one of a world runs at a time.
	New func(to Submitter) (intent.Source, error)
	// Put writes a value, in JSON; Delete removes a key.
	Put    func(key, value string)
	Delete func(key string)
	// Away makes the origin unreachable, or unreadable, and Back reachable. Put and Delete go on
	// meanwhile.
	Away, Back func()
	// Replace puts an empty origin in the place of this one. The source must notice that. Nil: a
	// replaced origin is the same as one of which everything was deleted.
	Replace func()
	// Accept tells the source, as an operator does, to believe the origin that replaces another.
	Accept func(intent.Source) error
}

// Submitter is that of the scheduler, as far as sources use it.
type Submitter interface {
	intent.Submitter
	Derived(k scheduler.Key, value any) ([]scheduler.Key, error)
}

// Conform plays each law on a world of its own.
func Conform(t *testing.T, world func(t *testing.T) World) {
	t.Helper()
	for _, l := range laws {
		t.Run(strings.ReplaceAll(l.name, " ", "-"), func(t *testing.T) {
			w := world(t)
			if l.replaces && w.Replace == nil {
				t.Log("not tried: a replaced origin is the same as an empty one")
				return
			}
			l.play(&play{t: t, World: w})
		})
	}
}

// law is a part of the contract.
type law struct {
	name     string
	replaces bool
	play     func(p *play)
}

// Two values of a kind that every decoder knows.
const (
	one = `{"dummy":{},"mtu":1401}`
	two = `{"dummy":{},"mtu":1402}`
)

var laws = []law{
	{name: "initial list", play: func(p *play) {
		p.put("interface/a", one)
		p.put("interface/b", two)
		p.start()
		p.wants("interface/a", one, "interface/b", two)
		p.isComplete()
		p.health("ok")
	}},
	{name: "empty origin", play: func(p *play) {
		p.start()
		p.isComplete()
		p.wants()
	}},
	{name: "change", play: func(p *play) {
		p.put("interface/a", one)
		p.start()
		p.wants("interface/a", one)
		p.put("interface/a", two)
		p.wants("interface/a", two)
		p.put("interface/b", one)
		p.wants("interface/a", two, "interface/b", one)
	}},
	{name: "deletion", play: func(p *play) {
		p.put("interface/a", one)
		p.put("interface/b", one)
		p.start()
		p.wants("interface/a", one, "interface/b", one)
		p.Delete("interface/a")
		p.wants("interface/b", one)
		p.Delete("interface/b")
		p.wants()
	}},
	{name: "outage", play: func(p *play) {
		p.put("interface/a", one)
		p.put("interface/b", one)
		p.put("interface/c", one)
		p.start()
		p.wants("interface/a", one, "interface/b", one, "interface/c", one)
		p.Away()
		p.health("down")
		p.wants("interface/a", one, "interface/b", one, "interface/c", one)
		p.Delete("interface/a")
		p.put("interface/b", two)
		p.put("interface/d", one)
		p.Back()
		p.wants("interface/b", two, "interface/c", one, "interface/d", one)
		p.health("ok")
	}},
	{name: "outage at the start", play: func(p *play) {
		p.put("interface/a", one)
		p.Away()
		p.start()
		p.health("down")
		if p.rec.completes() > 0 {
			p.t.Errorf("complete, though the origin was never read:\n%s", p.rec)
		}
		p.Back()
		p.wants("interface/a", one)
		p.isComplete()
	}},
	{name: "restart", play: func(p *play) {
		p.put("interface/a", one)
		p.put("interface/b", one)
		p.start()
		p.wants("interface/a", one, "interface/b", one)
		p.stop()
		p.wants("interface/a", one, "interface/b", one) // nothing is withdrawn at the end
		p.Delete("interface/a")
		p.put("interface/b", two)
		p.start()
		p.wants("interface/b", two)
		p.isComplete()
	}},
	{name: "replaced origin", replaces: true, play: func(p *play) {
		p.put("interface/a", one)
		p.put("interface/b", one)
		p.start()
		p.wants("interface/a", one, "interface/b", one)
		p.Replace()
		p.health("degraded")
		p.wants("interface/a", one, "interface/b", one)
		p.put("interface/b", two) // what it wants is done, what it lacks is not withdrawn
		p.put("interface/c", one)
		p.wants("interface/a", one, "interface/b", two, "interface/c", one)
		if err := p.Accept(p.source); err != nil {
			p.t.Fatal(err)
		}
		p.wants("interface/b", two, "interface/c", one)
		p.health("ok")
	}},
	{name: "malformed value", play: func(p *play) {
		p.put("interface/a", one)
		p.put("interface/bad", `{"dummy":{},"no_such_field":1}`)
		p.start()
		p.wants("interface/a", one, "interface/bad", "invalid: no_such_field")
		p.isComplete()
		p.put("interface/a", `{"dummy":{},"mtu":-1}`)
		p.wants("interface/a", "invalid: mtu", "interface/bad", "invalid: no_such_field")
		p.put("interface/bad", two)
		p.put("interface/a", two)
		p.wants("interface/a", two, "interface/bad", two)
	}},
	{name: "slow consumer", play: func(p *play) {
		p.put("interface/a", one)
		p.start()
		p.wants("interface/a", one)
		release := p.rec.hold()
		for i := range 50 {
			p.put("interface/a", fmt.Sprintf(`{"dummy":{},"mtu":%d}`, 1500+i))
			p.put(fmt.Sprintf("interface/x%02d", i), one)
			if i > 0 {
				p.Delete(fmt.Sprintf("interface/x%02d", i-1))
			}
		}
		release()
		p.wants("interface/a", `{"dummy":{},"mtu":1549}`, "interface/x49", one)
	}},
}

// play is one law on its world.
type play struct {
	t *testing.T
	World
	source intent.Source
	rec    *recorder
	stop   func()
}

func (p *play) put(key, value string) { p.World.Put(key, value) }

// start begins a source that submits to a recorder of its own, as the source of a new agent does.
func (p *play) start() {
	p.t.Helper()
	p.rec = newRecorder()
	var err error
	if p.source, err = p.New(p.rec); err != nil {
		p.t.Fatal(err)
	}
	if p.rec.name = p.source.Name(); p.rec.name == "" {
		p.t.Fatal("the source has no name")
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.source.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		p.rec.let()
		cancel()
		select {
		case err := <-done:
			if err != nil {
				p.t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			p.t.Error("Run does not return after its context has ended")
		}
	})
	p.t.Cleanup(p.stop)
}

// patience is for how long something is waited for; a source that conforms needs milliseconds to seconds.
var patience = time.Minute

// until waits until something holds.
func (p *play) until(what func() string) {
	p.t.Helper()
	end := time.After(patience)
	for {
		moved := p.rec.moved()
		fault := what()
		if fault == "" {
			return
		}
		select {
		case <-moved:
		case <-time.After(10 * time.Millisecond):
		case <-end:
			p.t.Fatalf("%s; health %+v\ntransactions:\n%s", fault, p.source.Health(), p.rec)
		}
	}
}

// wants waits until exactly these keys with their values are wanted. The value "invalid: WORD" is an
// error with the word.
func (p *play) wants(pairs ...string) {
	p.t.Helper()
	want := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		want[pairs[i]] = pairs[i+1]
	}
	p.until(func() string {
		is := p.rec.wanted()
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if fault := differs(key, is[key], want[key]); fault != "" {
				return fault
			}
		}
		for _, key := range slices.Sorted(maps.Keys(is)) {
			if _, wanted := want[key]; !wanted {
				return key + " is wanted, and should not be"
			}
		}
		return ""
	})
}

// differs says how a value differs from the one that is expected.
func differs(key, is, want string) string {
	if word, bad := strings.CutPrefix(want, "invalid: "); bad {
		if !strings.HasPrefix(is, "invalid: ") || !strings.Contains(is, word) {
			return fmt.Sprintf("%s is %q, and should be invalid because of %s", key, is, word)
		}
		return ""
	}
	v, err := models.Decode(key, []byte(want))
	if err != nil {
		return err.Error()
	}
	if want := string(models.Encode(v)); is != want {
		return fmt.Sprintf("%s is %q, want %q", key, is, want)
	}
	return ""
}

// isComplete waits for a complete transaction.
func (p *play) isComplete() {
	p.t.Helper()
	p.until(func() string {
		if p.rec.completes() == 0 {
			return "no transaction is complete"
		}
		return ""
	})
}

// health waits until the source is in a state. If it is not well it says why.
func (p *play) health(state string) {
	p.t.Helper()
	p.until(func() string {
		h := p.source.Health()
		if h.State != state || state != "ok" && h.Reason == "" {
			return fmt.Sprintf("health is %s (%s), want %s", h.State, h.Reason, state)
		}
		return ""
	})
}

// recorder stands for the scheduler: it keeps what the source wants, in the plainest way.
type recorder struct {
	name string

	mu       sync.Mutex // guards what follows
	want     map[string]string
	complete int
	text     strings.Builder
	news     chan struct{}
	gate     chan struct{} // Submit waits for it, unless it is nil
}

func newRecorder() *recorder {
	return &recorder{want: map[string]string{}, news: make(chan struct{})}
}

// Derived: no value derives another.
func (r *recorder) Derived(scheduler.Key, any) ([]scheduler.Key, error) { return nil, nil }

// Submit carries out the transaction at once, unless the recorder is held.
func (r *recorder) Submit(t scheduler.Txn) *scheduler.Handle {
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	if gate != nil {
		<-gate
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.text, "%s (complete: %t)\n", t.Note, t.Complete)
	if t.Complete {
		r.complete++
		clear(r.want)
	}
	if t.Source != r.name { // which no law expects
		r.want[fmt.Sprintf("a transaction of source %q", t.Source)] = "x"
	}
	for _, c := range t.Want {
		text := ""
		switch {
		case c.Invalid != nil:
			text = "invalid: " + c.Invalid.Error()
		case c.Value != nil:
			text = string(models.Encode(c.Value.(proto.Message)))
		}
		fmt.Fprintf(&r.text, "  %s %s\n", c.Key, text)
		if r.want[string(c.Key)] = text; text == "" {
			delete(r.want, string(c.Key))
		}
	}
	close(r.news)
	r.news = make(chan struct{})
	return nil
}

// hold lets Submit wait until release is called.
func (r *recorder) hold() (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = make(chan struct{})
	return r.let
}

func (r *recorder) let() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gate != nil {
		close(r.gate)
		r.gate = nil
	}
}

// moved is closed at the next transaction.
func (r *recorder) moved() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.news
}

func (r *recorder) wanted() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.want)
}

func (r *recorder) completes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.complete
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}
