package schedulertest

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// book is a value with all that a value may have.
type book struct {
	Title string
	On    string   // another book that it lies on
	Pages []string // derived
	Heavy bool     // cannot be changed in place
}

// lying is a book on the shelf.
type lying struct {
	book
	id   int
	ours bool
}

// shelf is a system of books that obeys every law.
type shelf struct {
	mu     sync.Mutex
	books  map[scheduler.Key]lying
	ids    int
	notify map[int]func(...scheduler.Key)
	answer chan struct{} // closed while the shelf answers
}

func (w *shelf) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.books, w.notify, w.answer = map[scheduler.Key]lying{}, map[int]func(...scheduler.Key){}, make(chan struct{})
	close(w.answer)
}

type (
	bookKind  = scheduler.Descriptor[*book, int]
	bookScope = scheduler.Scope[*book, int]
	bookFound = scheduler.Found[*book, int]
	bookOp    = scheduler.Op[*book, int]
)

// enter waits until the shelf answers.
func (w *shelf) enter(ctx context.Context) error {
	w.mu.Lock()
	answer := w.answer
	w.mu.Unlock()
	select {
	case <-answer:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *shelf) create(ctx context.Context, k scheduler.Key, v *book) (int, error) {
	if err := w.enter(ctx); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b, there := w.books[k]
	if there && !b.ours {
		return 0, scheduler.Conflict("the library", errors.New("its place is taken"))
	}
	if !there {
		w.ids++
		b.id, b.ours = w.ids, true
	}
	b.book = *v
	w.books[k] = b
	return b.id, nil
}

func (w *shelf) update(ctx context.Context, k scheduler.Key, _, to *book, id int) (int, error) {
	if err := w.enter(ctx); err != nil {
		return id, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b, there := w.books[k]
	if !there {
		return id, errors.New("it is not there")
	}
	b.book = *to
	w.books[k] = b
	return id, nil
}

func (w *shelf) delete(ctx context.Context, k scheduler.Key, _ *book, id int) error {
	if err := w.enter(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.books[k]; b.ours && b.id == id {
		delete(w.books, k)
	}
	return nil
}

func (w *shelf) retrieve(ctx context.Context, s bookScope) iter.Seq2[bookFound, error] {
	return func(yield func(bookFound, error) bool) {
		if err := w.enter(ctx); err != nil {
			yield(bookFound{}, err)
			return
		}
		w.mu.Lock()
		books := maps.Clone(w.books)
		w.mu.Unlock()
		for _, k := range slices.Sorted(maps.Keys(books)) {
			b := books[k]
			if (s.All || slices.Contains(s.Keys, k)) && !yield(bookFound{Key: k, Value: &b.book, Meta: b.id, Foreign: !b.ours}, nil) {
				return
			}
		}
	}
}

func (w *shelf) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	w.mu.Lock()
	w.ids++
	id := w.ids
	w.notify[id] = notify
	w.mu.Unlock()
	notify() // what happened before was not seen
	<-ctx.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.notify, id)
	return ctx.Err()
}

func (w *shelf) remove(_ testing.TB, k scheduler.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.books, k)
	for _, notify := range w.notify {
		notify(k)
	}
}

func (w *shelf) foreign(_ testing.TB, k scheduler.Key, v *book) func() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.books[k] = lying{book: *v, id: -1}
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.books[k].id == -1
	}
}

func (w *shelf) stall(testing.TB) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	hangs := make(chan struct{})
	w.answer = hangs
	return func() { close(hangs) }
}

func equalBooks(a, b *book) bool {
	return a.Title == b.Title && a.On == b.On && slices.Equal(a.Pages, b.Pages) && a.Heavy == b.Heavy
}

func cloneBook(v *book) *book {
	if v == nil {
		return nil
	}
	c := *v
	c.Pages = slices.Clone(v.Pages)
	return &c
}

func (w *shelf) kind() bookKind {
	d := bookKind{
		Name: "book", Prefix: "book/",
		Create: w.create, Update: w.update, Delete: w.delete, Retrieve: w.retrieve, Watch: w.watch,
		Needs: func(_ scheduler.Key, v *book) []scheduler.Need {
			if v.On == "" {
				return nil
			}
			return []scheduler.Need{scheduler.On(scheduler.Key("book/"+v.On), "the book that it lies on")}
		},
		Equal: func(_ scheduler.Key, a, b *book) bool { return equalBooks(a, b) },
		Compare: func(_ scheduler.Key, from, to *book) scheduler.Verdict {
			switch {
			case equalBooks(from, to):
				return scheduler.Verdict{}
			case from.Heavy != to.Heavy:
				return scheduler.Verdict{Change: scheduler.Replace, Reason: "heavy"}
			}
			return scheduler.Verdict{Change: scheduler.InPlace, Reason: "another text"}
		},
		Validate: func(_ scheduler.Key, v *book) error {
			if v.Title == "" {
				return scheduler.Invalid("title", "give it one")
			}
			return nil
		},
		Derive: func(k scheduler.Key, v *book) (pages []scheduler.Change) {
			for _, p := range v.Pages {
				pages = append(pages, scheduler.Set(scheduler.Key("page/"+strings.TrimPrefix(string(k), "book/")+"/"+p), p))
			}
			return pages
		},
		Claims:     func(_ scheduler.Key, v *book) []scheduler.Claim { return []scheduler.Claim{{ID: v.Title}} },
		Lane:       func(_ scheduler.Key, v *book) string { return v.On },
		Disruption: func(scheduler.Key, *book, *book) scheduler.Disruption { return scheduler.Brief },
		Encode:     func(v *book) ([]byte, error) { return json.Marshal(v) },
		Decode: func(b []byte) (*book, error) {
			v := &book{}
			return v, json.Unmarshal(b, v)
		},
	}
	d.CreateBatch = func(ctx context.Context, ops []*bookOp) {
		for _, o := range ops {
			o.Meta, o.Err = w.create(ctx, o.Key, o.Value)
		}
	}
	d.DeleteBatch = func(ctx context.Context, ops []*bookOp) {
		for _, o := range ops {
			o.Err = w.delete(ctx, o.Key, o.Value, o.Meta)
		}
	}
	return d
}

func (w *shelf) spec() Spec[*book, int] {
	return Spec[*book, int]{
		Samples: []Sample[*book]{
			{"book/atlas", []*book{{Title: "Maps", Pages: []string{"1", "2"}}, {Title: "Maps"}, {Title: "More maps"}, {Title: "Maps", Heavy: true}}},
			{"book/novel", []*book{{Title: "Once", On: "atlas"}, {Title: "Twice", On: "atlas"}}},
			{"book/poems", []*book{{Title: "Or"}, {Title: "And", Pages: []string{"9"}}}},
		},
		Refused: map[scheduler.Key]*book{"book/none": {}},
		Kinds:   []scheduler.Key{"page/"},
		Setup:   func(testing.TB) { w.reset() },
		Restart: func(testing.TB) bookKind { return w.kind() },
		Foreign: w.foreign, Remove: w.remove, Stall: w.stall, Clone: cloneBook,
		Patience: 10 * time.Second,
	}
}

// TestConform: who keeps all laws is not blamed.
func TestConform(t *testing.T) {
	w := &shelf{}
	Conform(t, w.kind(), w.spec())
}

// TestConformFewLines: samples are enough.
func TestConformFewLines(t *testing.T) {
	w := &shelf{}
	w.reset()
	d := scheduler.Descriptor[*book, int]{Name: "book", Prefix: "book/", Create: w.create, Delete: w.delete, Update: w.update, Retrieve: w.retrieve}
	Conform(t, d, Spec[*book, int]{Samples: []Sample[*book]{{"book/a", []*book{{Title: "x"}, {Title: "y"}}}}})
}

// observedShelf is the kind of books that others put there.
func (w *shelf) observed() (bookKind, Spec[*book, int]) {
	d := bookKind{Name: "book", Prefix: "book/", Retrieve: w.retrieve, Watch: w.watch, Interest: func(scheduler.Key, bool) {}}
	s := w.spec()
	s.Make = func(_ testing.TB, k scheduler.Key, v *book) *book {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.books[k] = lying{book: *v}
		return v
	}
	return d, s
}

func TestConformObserved(t *testing.T) {
	w := &shelf{}
	d, s := w.observed()
	Conform(t, d, s)
}
