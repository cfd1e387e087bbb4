package schedulertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// broken are descriptors with one fault each, and the law that must find it.
var broken = []struct {
	law, fault string
	harm       func(d *bookKind, w *shelf)
}{
	{"registers", "its prefix has no slash", func(d *bookKind, _ *shelf) { d.Prefix = "book" }},
	{"registers", "Create without Delete", func(d *bookKind, _ *shelf) { d.Delete = nil }},

	{"pure", "Needs counts its calls", func(d *bookKind, _ *shelf) {
		n := 0
		d.Needs = func(scheduler.Key, *book) []scheduler.Need {
			n++
			return []scheduler.Need{scheduler.On("x/y", fmt.Sprint(n))}
		}
	}},
	{"pure", "Compare goes by the address of the value", func(d *bookKind, _ *shelf) {
		d.Equal = nil
		d.Compare = func(_ scheduler.Key, from, to *book) scheduler.Verdict {
			if from == to {
				return scheduler.Verdict{}
			}
			return scheduler.Verdict{Change: scheduler.Replace, Reason: "another"}
		}
	}},
	{"pure", "Validate normalises in place", func(d *bookKind, _ *shelf) {
		d.Validate = func(_ scheduler.Key, v *book) error { v.Title = strings.ToUpper(v.Title); return nil }
	}},
	{"pure", "Equal sorts in place", func(d *bookKind, _ *shelf) {
		d.Compare = nil
		d.Equal = func(_ scheduler.Key, a, b *book) bool {
			slices.SortFunc(b.Pages, func(x, y string) int { return strings.Compare(y, x) })
			return equalBooks(a, b)
		}
	}},
	{"pure", "Derive gives a random order", func(d *bookKind, _ *shelf) {
		derive, n := d.Derive, 0
		d.Derive = func(k scheduler.Key, v *book) []scheduler.Change {
			list := derive(k, v)
			if n++; n%2 == 0 {
				slices.Reverse(list)
			}
			return list
		}
	}},
	{"pure", "Disruption panics when something is made", func(d *bookKind, _ *shelf) {
		d.Disruption = func(_ scheduler.Key, from, to *book) scheduler.Disruption {
			if from.Title == to.Title {
				return scheduler.NoDisruption
			}
			return scheduler.Brief
		}
	}},

	{"secrets", "the secret is shown", func(d *bookKind, _ *shelf) {
		d.Secrets = func(v *book) (*book, []string) { return v, []string{v.Title} }
	}},
	{"validate", "everything is refused", func(d *bookKind, _ *shelf) {
		d.Validate = func(scheduler.Key, *book) error { return scheduler.Invalid("", "no") }
	}},
	{"validate", "nothing is refused", func(d *bookKind, _ *shelf) {
		d.Validate = func(scheduler.Key, *book) error { return nil }
	}},
	{"validate", "with an error of another class", func(d *bookKind, _ *shelf) {
		validate := d.Validate
		d.Validate = func(k scheduler.Key, v *book) error {
			if validate(k, v) != nil {
				return errors.New("no")
			}
			return nil
		}
	}},

	{"compare", "no value is the same as itself", func(d *bookKind, _ *shelf) {
		d.Compare = nil
		d.Equal = func(scheduler.Key, *book, *book) bool { return false }
	}},
	{"compare", "InPlace without Update", func(d *bookKind, _ *shelf) { d.Update = nil }},
	{"compare", "no reason", func(d *bookKind, _ *shelf) {
		compare := d.Compare
		d.Compare = func(k scheduler.Key, from, to *book) scheduler.Verdict {
			return scheduler.Verdict{Change: compare(k, from, to).Change}
		}
	}},
	{"compare", "Equal disagrees", func(d *bookKind, _ *shelf) {
		d.Equal = func(_ scheduler.Key, a, b *book) bool { return a.Title == b.Title }
	}},

	{"needs", "itself", func(d *bookKind, _ *shelf) {
		d.Needs = func(k scheduler.Key, _ *book) []scheduler.Need { return []scheduler.Need{scheduler.On(k, "why not")} }
	}},
	{"needs", "a prefix as a key", func(d *bookKind, _ *shelf) {
		d.Needs = func(scheduler.Key, *book) []scheduler.Need { return []scheduler.Need{scheduler.On("link/", "a link")} }
	}},
	{"needs", "nothing for nothing", func(d *bookKind, _ *shelf) {
		d.Needs = func(scheduler.Key, *book) []scheduler.Need { return []scheduler.Need{{}} }
	}},
	{"needs", "without saying what for", func(d *bookKind, _ *shelf) {
		d.Needs = func(scheduler.Key, *book) []scheduler.Need { return []scheduler.Need{scheduler.On("link/x", "")} }
	}},

	{"derive", "of a kind that nobody knows", func(d *bookKind, _ *shelf) {
		d.Derive = func(scheduler.Key, *book) []scheduler.Change { return []scheduler.Change{scheduler.Set("leaf/x", "x")} }
	}},
	{"derive", "one key twice", func(d *bookKind, _ *shelf) {
		d.Derive = func(scheduler.Key, *book) []scheduler.Change {
			return []scheduler.Change{scheduler.Set("page/x", "x"), scheduler.Set("page/x", "y")}
		}
	}},
	{"derive", "no value", func(d *bookKind, _ *shelf) {
		d.Derive = func(scheduler.Key, *book) []scheduler.Change { return []scheduler.Change{scheduler.Withdraw("page/x")} }
	}},

	{"codec", "a field is lost", func(d *bookKind, _ *shelf) {
		encode := d.Encode
		d.Encode = func(v *book) ([]byte, error) { return encode(&book{Title: v.Title}) }
	}},
	{"codec", "equal values have other bytes", func(d *bookKind, _ *shelf) {
		encode, n := d.Encode, 0
		d.Encode = func(v *book) ([]byte, error) {
			n++
			b, err := encode(v)
			return append(b, strings.Repeat(" ", n)...), err
		}
	}},
	{"codec", "Decode panics on what means nothing", func(d *bookKind, _ *shelf) {
		decode := d.Decode
		d.Decode = func(b []byte) (*book, error) { _ = b[0]; return decode(b) }
	}},

	{"create-retrieve", "Create does nothing", func(d *bookKind, _ *shelf) {
		d.Create = func(context.Context, scheduler.Key, *book) (int, error) { return 1, nil }
	}},
	{"create-retrieve", "Create forgets a field", func(d *bookKind, w *shelf) {
		d.Create = func(ctx context.Context, k scheduler.Key, v *book) (int, error) {
			return w.create(ctx, k, &book{Title: v.Title, On: v.On, Heavy: v.Heavy})
		}
	}},
	{"create-retrieve", "Retrieve takes ours for somebody else's", func(d *bookKind, w *shelf) {
		d.Retrieve = finds(w, func(f *bookFound) { f.Foreign = true })
	}},
	{"create-retrieve", "Retrieve yields an error", func(d *bookKind, _ *shelf) {
		d.Retrieve = func(context.Context, bookScope) iter.Seq2[bookFound, error] {
			return func(yield func(bookFound, error) bool) { yield(bookFound{}, errors.New("no")) }
		}
	}},
	{"create-twice", "it exists, so it fails", func(d *bookKind, w *shelf) {
		d.Create = func(ctx context.Context, k scheduler.Key, v *book) (int, error) {
			if w.has(k) {
				return 0, errors.New("exists")
			}
			return w.create(ctx, k, v)
		}
	}},
	{"create-twice", "the second has other metadata", func(d *bookKind, w *shelf) {
		n := 0
		d.Create = func(ctx context.Context, k scheduler.Key, v *book) (int, error) {
			n++
			_, err := w.create(ctx, k, v)
			return n, err
		}
	}},
	{"delete", "Delete does nothing", func(d *bookKind, _ *shelf) {
		d.Delete = func(context.Context, scheduler.Key, *book, int) error { return nil }
	}},
	{"delete-absent", "it is gone, so it fails", func(d *bookKind, w *shelf) {
		d.Delete = func(ctx context.Context, k scheduler.Key, v *book, m int) error {
			if !w.has(k) {
				return errors.New("no such book")
			}
			return w.delete(ctx, k, v, m)
		}
	}},
	{"delete-absent", "it fails without metadata", func(d *bookKind, w *shelf) {
		d.Delete = func(ctx context.Context, k scheduler.Key, v *book, m int) error {
			if m == 0 {
				return errors.New("which one")
			}
			return w.delete(ctx, k, v, m)
		}
	}},
	{"no-op", "a field is left out of the comparison", func(d *bookKind, _ *shelf) {
		same := func(_ scheduler.Key, a, b *book) bool { return a.Title == b.Title && a.Heavy == b.Heavy }
		d.Equal, d.Compare = same, nil
	}},
	{"no-op", "what is the same is taken for another", func(d *bookKind, w *shelf) {
		// Titles are kept in capitals, and compared as they were written.
		d.Create = func(ctx context.Context, k scheduler.Key, v *book) (int, error) { return w.create(ctx, k, upper(v)) }
		d.Update = func(ctx context.Context, k scheduler.Key, from, to *book, m int) (int, error) {
			return w.update(ctx, k, from, upper(to), m)
		}
	}},
	{"update", "Update forgets a field", func(d *bookKind, w *shelf) {
		d.Update = func(ctx context.Context, k scheduler.Key, from, to *book, m int) (int, error) {
			return w.update(ctx, k, from, &book{Title: to.Title, On: to.On, Pages: from.Pages}, m)
		}
	}},
	{"update", "Update fails", func(d *bookKind, _ *shelf) {
		d.Update = func(context.Context, scheduler.Key, *book, *book, int) (int, error) { return 0, errors.New("no") }
	}},
	{"update", "Update leaves a rest that Compare does not see", func(d *bookKind, w *shelf) {
		loose := func(a, b *book) bool { return a.Title == b.Title && a.Heavy == b.Heavy }
		d.Equal = nil
		d.Compare = func(_ scheduler.Key, from, to *book) scheduler.Verdict {
			if loose(from, to) {
				return scheduler.Verdict{}
			}
			return scheduler.Verdict{Change: scheduler.InPlace, Reason: "another"}
		}
		d.Update = func(ctx context.Context, k scheduler.Key, from, to *book, m int) (int, error) {
			return w.update(ctx, k, from, &book{Title: to.Title, On: to.On, Pages: from.Pages, Heavy: to.Heavy}, m)
		}
	}},
	{"update-absent", "Update of nothing succeeds", func(d *bookKind, w *shelf) {
		d.Update = func(ctx context.Context, k scheduler.Key, from, to *book, m int) (int, error) {
			_, _ = w.update(ctx, k, from, to, m)
			return m, nil
		}
	}},
	{"metadata", "Retrieve makes its own", func(d *bookKind, w *shelf) {
		d.Retrieve = finds(w, func(f *bookFound) { f.Meta = 7 })
	}},
	{"metadata", "Update forgets it", func(d *bookKind, w *shelf) {
		d.Update = func(ctx context.Context, k scheduler.Key, from, to *book, m int) (int, error) {
			_, err := w.update(ctx, k, from, to, m)
			return 0, err
		}
	}},
	{"scope", "Retrieve yields everything, whatever is asked", func(d *bookKind, w *shelf) {
		d.Retrieve = func(ctx context.Context, _ bookScope) iter.Seq2[bookFound, error] {
			return w.retrieve(ctx, bookScope{All: true})
		}
	}},
	{"scope", "Retrieve yields what others keep elsewhere", func(d *bookKind, w *shelf) {
		d.Retrieve = also(w, bookFound{Key: "page/1"})
	}},
	{"scope", "Retrieve yields things twice", func(d *bookKind, w *shelf) {
		d.Retrieve = also(w, bookFound{Key: "book/poems", Value: &book{Title: "Or"}})
	}},
	{"scope", "Retrieve finds what nobody made", func(d *bookKind, w *shelf) {
		d.Retrieve = also(w, bookFound{Key: "book/ghost", Value: &book{Title: "Boo"}})
	}},
	{"scope", "Retrieve of all skips one", func(d *bookKind, w *shelf) {
		d.Retrieve = func(ctx context.Context, s bookScope) iter.Seq2[bookFound, error] {
			if s.All {
				s = bookScope{Keys: []scheduler.Key{"book/atlas", "book/novel"}}
			}
			return w.retrieve(ctx, s)
		}
	}},
	{"scope", "Retrieve goes on when nobody listens any more", func(d *bookKind, w *shelf) {
		d.Retrieve = func(ctx context.Context, s bookScope) iter.Seq2[bookFound, error] {
			return func(yield func(bookFound, error) bool) {
				for f, err := range w.retrieve(ctx, s) {
					yield(f, err)
				}
			}
		}
	}},
	{"lost", "what is believed is not looked at", func(d *bookKind, w *shelf) {
		seen := map[scheduler.Key]bool{}
		d.Delete = func(ctx context.Context, k scheduler.Key, v *book, m int) error {
			if seen[k] && !w.has(k) {
				return errors.New("it must be there")
			}
			delete(seen, k)
			return w.delete(ctx, k, v, m)
		}
		d.Create = func(ctx context.Context, k scheduler.Key, v *book) (int, error) {
			seen[k] = true
			return w.create(ctx, k, v)
		}
	}},
	{"restart", "what was made is known in memory only", func(d *bookKind, w *shelf) {
		made := map[scheduler.Key]bool{}
		d.Create = func(ctx context.Context, k scheduler.Key, v *book) (int, error) {
			made[k] = true
			return w.create(ctx, k, v)
		}
		d.Retrieve = finds(w, func(f *bookFound) { f.Foreign = f.Foreign || !made[f.Key] })
	}},
	{"foreign", "a foreign book is taken over", func(d *bookKind, w *shelf) {
		d.Create = func(ctx context.Context, k scheduler.Key, v *book) (int, error) {
			w.own(k)
			return w.create(ctx, k, v)
		}
	}},
	{"foreign", "a conflict is not told as one", func(d *bookKind, w *shelf) {
		d.Create = func(ctx context.Context, k scheduler.Key, v *book) (int, error) {
			m, err := w.create(ctx, k, v)
			if err != nil {
				err = errors.New(err.Error())
			}
			return m, err
		}
	}},
	{"foreign", "a foreign book is deleted", func(d *bookKind, w *shelf) {
		d.Delete = func(_ context.Context, k scheduler.Key, _ *book, _ int) error { w.remove(nil, k); return nil }
	}},
	{"foreign", "a foreign book is shown as ours", func(d *bookKind, w *shelf) {
		d.Retrieve = finds(w, func(f *bookFound) { f.Foreign = false })
	}},
	{"batch", "the first entry only", func(d *bookKind, w *shelf) {
		d.CreateBatch = func(ctx context.Context, ops []*bookOp) {
			if len(ops) > 0 {
				ops[0].Meta, ops[0].Err = w.create(ctx, ops[0].Key, ops[0].Value)
			}
		}
	}},
	{"batch", "the metadata is forgotten", func(d *bookKind, w *shelf) {
		d.CreateBatch = func(ctx context.Context, ops []*bookOp) {
			for _, o := range ops {
				_, o.Err = w.create(ctx, o.Key, o.Value)
			}
		}
	}},
	{"batch", "what is gone cannot be deleted", func(d *bookKind, w *shelf) {
		d.DeleteBatch = func(ctx context.Context, ops []*bookOp) {
			for _, o := range ops {
				if o.Err = errors.New("gone"); w.has(o.Key) {
					o.Err = w.delete(ctx, o.Key, o.Value, o.Meta)
				}
			}
		}
	}},
	{"batch-results", "one fails, all fail", func(d *bookKind, w *shelf) {
		d.CreateBatch = func(ctx context.Context, ops []*bookOp) {
			var failed error
			for _, o := range ops {
				var err error
				o.Meta, err = w.create(ctx, o.Key, o.Value)
				failed = errors.Join(failed, err)
			}
			for _, o := range ops {
				o.Err = failed
			}
		}
	}},
	{"batch-results", "what failed is not told", func(d *bookKind, w *shelf) {
		d.CreateBatch = func(ctx context.Context, ops []*bookOp) {
			for _, o := range ops {
				o.Meta, _ = w.create(ctx, o.Key, o.Value)
			}
		}
	}},
	{"cancelled", "success without doing it", func(d *bookKind, w *shelf) {
		d.Create = func(ctx context.Context, k scheduler.Key, v *book) (int, error) {
			m, _ := w.create(ctx, k, v)
			return m, nil
		}
	}},
	{"cancelled", "the value is blamed", func(d *bookKind, w *shelf) {
		d.Create = func(ctx context.Context, k scheduler.Key, v *book) (int, error) {
			m, err := w.create(ctx, k, v)
			if err != nil && ctx.Err() != nil {
				err = scheduler.Terminal(err)
			}
			return m, err
		}
	}},
	{"cancelled", "a Delete that was not done is success", func(d *bookKind, w *shelf) {
		d.Delete = func(ctx context.Context, k scheduler.Key, v *book, m int) error {
			_ = w.delete(ctx, k, v, m)
			return nil
		}
	}},
	{"stalled", "Create waits for the system, whatever the context says", func(d *bookKind, w *shelf) {
		d.Create = func(_ context.Context, k scheduler.Key, v *book) (int, error) {
			return w.create(context.Background(), k, v)
		}
	}},
	{"stalled", "Retrieve waits for the system, whatever the context says", func(d *bookKind, w *shelf) {
		d.Retrieve = func(_ context.Context, s bookScope) iter.Seq2[bookFound, error] {
			return w.retrieve(context.Background(), s)
		}
	}},
	{"watch", "nothing is ever notified", func(d *bookKind, _ *shelf) {
		d.Watch = func(ctx context.Context, _ func(...scheduler.Key)) error { <-ctx.Done(); return ctx.Err() }
	}},
	{"watch", "only that it has begun", func(d *bookKind, _ *shelf) {
		d.Watch = func(ctx context.Context, notify func(...scheduler.Key)) error {
			notify()
			<-ctx.Done()
			return ctx.Err()
		}
	}},
	{"watch", "keys of others", func(d *bookKind, w *shelf) {
		d.Watch = func(ctx context.Context, notify func(...scheduler.Key)) error {
			notify("page/1")
			return w.watch(ctx, notify)
		}
	}},
	{"read-only", "what was shown to somebody is no news", func(d *bookKind, w *shelf) {
		var shown sync.Map
		d.Retrieve = func(ctx context.Context, s bookScope) iter.Seq2[bookFound, error] {
			for _, kn := range s.Known {
				if s.ReadOnly && !w.has(kn.Key) {
					shown.Store(kn.Key, true)
				}
			}
			return w.retrieve(ctx, s)
		}
		d.Watch = func(ctx context.Context, notify func(...scheduler.Key)) error {
			return w.watch(ctx, func(keys ...scheduler.Key) {
				time.AfterFunc(impatient/10, func() { // an event comes later than what it tells of
					for _, k := range keys {
						if _, known := shown.Load(k); !known {
							notify(k)
						}
					}
				})
			})
		}
	}},
	{"read-only", "it finds what has gone", func(d *bookKind, w *shelf) {
		d.Retrieve = func(ctx context.Context, s bookScope) iter.Seq2[bookFound, error] {
			if !s.ReadOnly {
				return w.retrieve(ctx, s)
			}
			return func(yield func(bookFound, error) bool) {
				for _, kn := range s.Known {
					if !yield(bookFound{Key: kn.Key, Value: kn.Value, Meta: kn.Meta}, nil) {
						return
					}
				}
			}
		}
	}},
	{"watch-ends", "it ends by itself", func(d *bookKind, _ *shelf) {
		d.Watch = func(context.Context, func(...scheduler.Key)) error { return nil }
	}},
	{"watch-ends", "it never ends", func(d *bookKind, w *shelf) {
		d.Watch = func(ctx context.Context, notify func(...scheduler.Key)) error {
			_ = w.watch(ctx, notify)
			time.Sleep(5 * impatient)
			return nil
		}
	}},
	{"goroutines", "every Create leaves one", func(d *bookKind, w *shelf) {
		d.Create = func(ctx context.Context, k scheduler.Key, v *book) (int, error) {
			go time.Sleep(5 * impatient)
			return w.create(ctx, k, v)
		}
	}},
	{"goroutines", "Watch leaves one", func(d *bookKind, w *shelf) {
		d.Watch = func(ctx context.Context, notify func(...scheduler.Key)) error {
			go time.Sleep(5 * impatient)
			return w.watch(ctx, notify)
		}
	}},
}

// impatient is how long is waited for what will not happen.
const impatient = 100 * time.Millisecond

func upper(v *book) *book {
	c := cloneBook(v)
	c.Title = strings.ToUpper(v.Title)
	return c
}

// finds is Retrieve with a change of what it finds.
func finds(w *shelf, change func(f *bookFound)) func(context.Context, bookScope) iter.Seq2[bookFound, error] {
	return func(ctx context.Context, s bookScope) iter.Seq2[bookFound, error] {
		return func(yield func(bookFound, error) bool) {
			for f, err := range w.retrieve(ctx, s) {
				if change(&f); !yield(f, err) {
					return
				}
			}
		}
	}
}

// also is Retrieve that finds one thing more.
func also(w *shelf, more bookFound) func(context.Context, bookScope) iter.Seq2[bookFound, error] {
	return func(ctx context.Context, s bookScope) iter.Seq2[bookFound, error] {
		return func(yield func(bookFound, error) bool) {
			for f, err := range w.retrieve(ctx, s) {
				if !yield(f, err) {
					return
				}
			}
			yield(more, nil)
		}
	}
}

func (w *shelf) has(k scheduler.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, there := w.books[k]
	return there
}

// own makes a book ours.
func (w *shelf) own(k scheduler.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b, there := w.books[k]; there {
		b.ours = true
		w.books[k] = b
	}
}

// TestConformFinds: each fault is found by the law that it breaks, and of each
// law there is a fault.
func TestConformFinds(t *testing.T) {
	untried := map[string]law[*book, int]{}
	for _, l := range laws[*book, int]() {
		untried[l.name] = l
	}
	all := len(untried)
	tried := map[string]law[*book, int]{}
	for _, c := range broken {
		l, ok := untried[c.law]
		if !ok {
			l = tried[c.law]
		}
		delete(untried, c.law)
		tried[c.law] = l
		t.Run(c.law+"/"+strings.ReplaceAll(c.fault, " ", "_"), func(t *testing.T) {
			w := &shelf{}
			d, spec := w.kind(), w.spec()
			c.harm(&d, w)
			// Nothing is waited for but what does not come.
			spec.Patience = impatient
			if c.law == "restart" {
				spec.Restart = func(testing.TB) bookKind { d := w.kind(); c.harm(&d, w); return d }
			}
			breaches := hold(t, l, d, spec)
			if len(breaches) == 0 {
				t.Fatalf("the law %s does not find it", c.law)
			}
			text := breaches[0].String()
			if !strings.Contains(text, "law "+c.law+": "+l.right) || breaches[0].key == "" {
				t.Errorf("the message says too little: %s", text)
			}
			t.Log(text)
		})
	}
	if len(untried) > 0 || all != len(tried) {
		t.Errorf("there is no fault to try the laws %v with", untried)
	}
}

// TestConformPanic: a panic is a breach like others, at the key that was tried.
func TestConformPanic(t *testing.T) {
	var calls atomic.Int32
	w := &shelf{}
	d := w.kind()
	d.Create = func(context.Context, scheduler.Key, *book) (int, error) { calls.Add(1); panic("out of paper") }
	for _, l := range laws[*book, int]() {
		if l.name == "create-twice" {
			breaches := hold(t, l, d, w.spec())
			if len(breaches) != 1 || breaches[0].key != "book/poems" || !strings.Contains(breaches[0].what, "out of paper") || calls.Load() != 1 {
				t.Errorf("%v after %d calls", breaches, calls.Load())
			}
		}
	}
}
