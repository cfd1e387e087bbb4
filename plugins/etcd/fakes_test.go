package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// decodeText is a decoder for tests: a value is a JSON string, and one that
// begins with "bad" is invalid.
func decodeText(key string, data []byte) (proto.Message, error) {
	if _, _, err := models.SplitKey(key); err != nil {
		return nil, err
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return nil, &models.InvalidError{Fields: []models.FieldError{{Error: err.Error()}}}
	}
	if strings.HasPrefix(text, "bad") {
		return nil, &models.InvalidError{Fields: []models.FieldError{{Field: "text", Error: "is bad"}}}
	}
	return wrapperspb.String(text), nil
}

// recorder stands for the scheduler: it keeps every transaction and what the
// source wants because of them, in the dumbest way.
type recorder struct {
	mu    sync.Mutex // guards what follows
	txns  []scheduler.Txn
	times []time.Time
	want  map[string]string
	moved chan struct{}
	gate  chan struct{} // when not nil, Submit waits for it
}

func newRecorder() *recorder {
	return &recorder{want: map[string]string{}, moved: make(chan struct{})}
}

// Derived: a route that is "split" derives another key.
func (r *recorder) Derived(k scheduler.Key, value any) ([]scheduler.Key, error) {
	if v, ok := value.(*wrapperspb.StringValue); ok && v.Value == "split" {
		return []scheduler.Key{"part/" + k}, nil
	}
	return nil, nil
}

func (r *recorder) Submit(t scheduler.Txn) *scheduler.Handle {
	now := time.Now()
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	if gate != nil {
		<-gate
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.Complete {
		clear(r.want)
	}
	for _, c := range t.Want {
		switch {
		case c.Invalid != nil:
			r.want[string(c.Key)] = "invalid: " + c.Invalid.Error()
		case c.Value == nil:
			delete(r.want, string(c.Key))
		default:
			r.want[string(c.Key)] = c.Value.(*wrapperspb.StringValue).Value
		}
	}
	r.txns, r.times = append(r.txns, t), append(r.times, now)
	close(r.moved)
	r.moved = make(chan struct{})
	return nil // carried out at once
}

func (r *recorder) wanted() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.want)
}

// since returns the transactions from number n on.
func (r *recorder) since(n int) []scheduler.Txn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.txns[min(n, len(r.txns)):])
}

func (r *recorder) count() int { return len(r.since(0)) }

// wait blocks until ok holds, which is asked again after every transaction.
func (r *recorder) wait(t testing.TB, what string, ok func(txns []scheduler.Txn) bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		r.mu.Lock()
		txns, moved := slices.Clone(r.txns), r.moved
		r.mu.Unlock()
		if ok(txns) {
			return
		}
		select {
		case <-moved:
		case <-deadline:
			t.Fatalf("waited in vain for %s; transactions:\n%s", what, story(txns))
		}
	}
}

// story prints transactions: `full list at revision 3 (complete): a=1 b=2`.
func story(txns []scheduler.Txn) string {
	var b strings.Builder
	for _, t := range txns {
		b.WriteString(t.Note)
		if t.Complete {
			b.WriteString(" (complete)")
		}
		b.WriteString(":")
		for i, c := range t.Want {
			if i == 20 {
				fmt.Fprintf(&b, " and %d more", len(t.Want)-i)
				break
			}
			switch {
			case c.Invalid != nil:
				fmt.Fprintf(&b, " %s invalid(%s)", c.Key, c.Invalid)
			case c.Value == nil:
				fmt.Fprintf(&b, " -%s", c.Key)
			default:
				fmt.Fprintf(&b, " %s=%s", c.Key, c.Value.(*wrapperspb.StringValue).Value)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// board stands for the scheduler's statuses: watchers see the latest of each
// key and what changed since they last looked.
type board struct {
	mu       sync.Mutex // guards what follows
	statuses map[scheduler.Key]scheduler.Status
	watchers map[*boardWatcher]bool
	opened   int
}

type boardWatcher struct {
	b       *board
	pending map[scheduler.Key]bool
	more    chan struct{}
}

func newBoard() *board {
	return &board{statuses: map[scheduler.Key]scheduler.Status{}, watchers: map[*boardWatcher]bool{}}
}

func (b *board) set(statuses ...scheduler.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range statuses {
		b.statuses[s.Key] = s
		for w := range b.watchers {
			w.pending[s.Key] = true
			w.ring()
		}
	}
}

func (b *board) watch() StatusWatcher {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &boardWatcher{b: b, pending: map[scheduler.Key]bool{}, more: make(chan struct{}, 1)}
	for k := range b.statuses {
		w.pending[k] = true
	}
	w.ring() // an empty board is a picture too
	b.watchers[w] = true
	b.opened++
	return w
}

func (w *boardWatcher) ring() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *boardWatcher) Next(ctx context.Context) ([]scheduler.Status, bool, error) {
	select {
	case <-ctx.Done():
		return nil, false, ctx.Err()
	case <-w.more:
	}
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	var out []scheduler.Status
	for k := range w.pending {
		if len(out) == 256 { // as the scheduler's
			w.ring()
			break
		}
		s := w.b.statuses[k]
		out = append(out, s)
		if s.State == scheduler.Removed {
			delete(w.b.statuses, k)
		}
		delete(w.pending, k)
	}
	return out, len(w.pending) == 0, nil
}

func (w *boardWatcher) Stop() {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	delete(w.b.watchers, w)
}

// The scheduler fits the ports.
var (
	_ Submitter     = (*scheduler.Scheduler)(nil)
	_ StatusWatcher = (*scheduler.Watcher)(nil)
)
