package intenttest

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/scheduler"
)

// origin is an origin in memory.
type origin struct {
	mu     sync.Mutex // guards what follows
	id     int
	away   bool
	values map[string]string
	news   chan struct{} // closed at each change
}

func newOrigin() *origin { return &origin{values: map[string]string{}, news: make(chan struct{})} }

func (o *origin) change(how func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	how()
	close(o.news)
	o.news = make(chan struct{})
}

var errAway = errors.New("the origin does not answer")

func (o *origin) read() (id int, values map[string]string, news <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away {
		return 0, nil, o.news, errAway
	}
	return o.id, maps.Clone(o.values), o.news, nil
}

// reader is a source that reads the whole origin after each change. It has the faults that are named.
type reader struct {
	origin *origin
	to     intent.Submitter
	faults string

	mu     sync.Mutex // guards what follows
	health models.Health
	told   map[string]string // what was submitted
	known  bool              // a complete transaction was submitted
	id     int               // of the origin that is believed
}

func (r *reader) has(fault string) bool { return r.faults == fault }

func (r *reader) Name() string { return "memory" }

func (r *reader) Place(string) string { return "" }

func (r *reader) Health() models.Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health
}

func (r *reader) Run(ctx context.Context) error {
	for first := true; ; first = false {
		id, values, news, err := r.origin.read()
		if first || !r.has("does not follow") {
			r.take(id, values, err)
		}
		select {
		case <-ctx.Done():
			if r.has("withdraws at its end") {
				r.take(id, nil, nil)
			}
			if r.has("fails at its end") {
				return ctx.Err()
			}
			return nil
		case <-news:
		}
	}
}

// take submits what is new.
func (r *reader) take(id int, values map[string]string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.health = models.Health{Name: "memory", State: "ok"}
	if err != nil && !r.has("an outage is empty") {
		r.health.State, r.health.Reason = "down", err.Error()
		return
	}
	if !r.known {
		r.id = id
	}
	replaced := id != r.id && !r.has("believes all origins")
	if replaced {
		r.health.State, r.health.Reason = "degraded", "it is another origin"
	}
	name := r.Name()
	if r.has("has another name") {
		name = "other"
	}
	txn := scheduler.Txn{Source: name, Note: "read", Complete: !r.known && !r.has("is never complete")}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if r.told[key] != values[key] && !(r.has("keeps old values") && r.told[key] != "") {
			txn.Want = append(txn.Want, changeOf(key, values[key]))
		}
	}
	for key := range r.told {
		if _, there := values[key]; !there && !replaced && !r.has("keeps what is deleted") {
			txn.Want = append(txn.Want, scheduler.Withdraw(scheduler.Key(key)))
		}
	}
	r.known = true
	if r.told == nil || !replaced {
		r.told = values
	} else {
		maps.Copy(r.told, values)
	}
	if r.has("a malformed value stops all") && slices.ContainsFunc(txn.Want, func(c scheduler.Change) bool { return c.Invalid != nil }) {
		return
	}
	if txn.Complete || len(txn.Want) > 0 {
		r.to.Submit(txn)
	}
}

func changeOf(key, text string) scheduler.Change {
	v, err := models.Decode(key, []byte(text))
	if err != nil {
		return scheduler.SetInvalid(scheduler.Key(key), scheduler.Invalid("", "%v", err))
	}
	return scheduler.Set(scheduler.Key(key), v)
}

// accept believes the origin that is there.
func (r *reader) accept() error {
	id, values, _, err := r.origin.read()
	if err == nil {
		r.mu.Lock()
		r.id = id
		r.mu.Unlock()
		r.take(id, values, nil)
	}
	return err
}

func inMemory(faults string) func(t *testing.T) World {
	return func(*testing.T) World {
		o := newOrigin()
		return World{
			New:     func(to Submitter) (intent.Source, error) { return &reader{origin: o, to: to, faults: faults}, nil },
			Put:     func(key, value string) { o.change(func() { o.values[key] = value }) },
			Delete:  func(key string) { o.change(func() { delete(o.values, key) }) },
			Away:    func() { o.change(func() { o.away = true }) },
			Back:    func() { o.change(func() { o.away = false }) },
			Replace: func() { o.change(func() { o.id++; clear(o.values) }) },
			Accept:  func(s intent.Source) error { return s.(*reader).accept() },
		}
	}
}

func TestConform(t *testing.T) { Conform(t, inMemory("")) }

// faults are those of a source, with a law that finds each.
var faults = map[string]string{
	"does not follow":             "change",
	"withdraws at its end":        "restart",
	"fails at its end":            "initial-list",
	"an outage is empty":          "outage",
	"believes all origins":        "replaced-origin",
	"has another name":            "initial-list",
	"is never complete":           "empty-origin",
	"keeps old values":            "change",
	"keeps what is deleted":       "deletion",
	"a malformed value stops all": "malformed-value",
}

// TestFaultsAreFound runs the laws on sources with faults, each in a process of its own.
func TestFaultsAreFound(t *testing.T) {
	for _, fault := range slices.Sorted(maps.Keys(faults)) {
		law := faults[fault]
		t.Run(strings.ReplaceAll(fault, " ", "-"), func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestFaulty$/^"+law+"$", "-test.timeout=1m")
			cmd.Env = append(os.Environ(), "INTENTTEST_FAULT="+fault)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestFaulty/"+law) {
				t.Errorf("the law %s does not find that a source %s: %v\n%s", law, fault, err, out)
			}
		})
	}
}

// TestFaulty is what TestFaultsAreFound runs.
func TestFaulty(t *testing.T) {
	fault := os.Getenv("INTENTTEST_FAULT")
	if fault == "" {
		return
	}
	patience = 300 * time.Millisecond
	Conform(t, inMemory(fault))
}
