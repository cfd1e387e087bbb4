package schedulertest

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// Spec tells [Conform] how to try a kind. Samples are enough for a kind of
// which nothing is there when the test begins; every further field lets more laws be
// tried.
type Spec[V, M any] struct {
	// Samples are the keys to try, those that others need first. Two keys of
	// two values each are enough for all laws.
	Samples []Sample[V]
	// Refused are values that Validate must refuse, by key.
	Refused map[scheduler.Key]V
	// Kinds are the prefixes under which derived keys may lie. Without them
	// any will do.
	Kinds []scheduler.Key

	// Setup makes what the samples need, without any object of the
	// kind. It is called before each law; what must be torn down goes into
	// t.Cleanup. Everything that runs in here and below may end the test.
	Setup func(t testing.TB)
	// Bind gives the descriptor what it would ask the scheduler about its own
	// kind. It is called before each law.
	Bind func(v *View[V, M])
	// Restart makes a descriptor that knows only what outlives the process. It
	// takes the place of the one before.
	Restart func(t testing.TB) scheduler.Descriptor[V, M]

	// Foreign puts somebody else's object where ours would be, until the end
	// of the law. stands reports whether it is still there as it was made.
	Foreign func(t testing.TB, k scheduler.Key, v V) (stands func() bool)
	// Remove takes an object away behind the descriptor's back.
	Remove func(t testing.TB, k scheduler.Key)
	// Make makes an object of an observed kind and returns it
	// as it is there. Observed kinds need it, and Remove.
	Make func(t testing.TB, k scheduler.Key, v V) V
	// Stall makes the system behind the kind hang until release is called.
	Stall func(t testing.TB) (release func())

	// Clone copies a value deeply, so that changes of an argument are noticed.
	// Default: an assignment, which is deep for values without pointers.
	Clone func(v V) V
	// Identical compares all of two values, also what Equal leaves out.
	// Default: reflect.DeepEqual.
	Identical func(a, b V) bool
	// Normalize takes out of a value that was found what was not asked for and
	// may be another each time: a random hardware address, a setting that is
	// left to the system. Default: it stays as it is.
	Normalize func(k scheduler.Key, found, asked V) V

	// Patience is how long the suite waits for what ought to happen before it
	// calls it missing. Default 1 min: a test machine may be busy.
	Patience time.Duration
}

// Sample is a key and the values to try at it. They must differ, and each is
// changed into each other.
type Sample[V any] struct {
	Key    scheduler.Key
	Values []V
}

// Conform holds a descriptor to the contract of [scheduler.Descriptor]. Each
// law is a subtest, so that `go test -run /delete-absent` tries one. A failure
// names the key, what happened, and the law with what would be right. Laws
// about functions that the descriptor does not have are left out; laws for
// which the spec lacks something are named in the log (go test -v).
//
// The laws run one after the other and each takes away what it made. Nothing
// else may work on the kind's objects at the same time.
func Conform[V, M any](t *testing.T, d scheduler.Descriptor[V, M], spec Spec[V, M]) {
	t.Helper()
	spec.check(t, d.Create == nil)
	for _, l := range laws[V, M]() {
		if l.concerns != nil && !l.concerns(d) {
			continue
		}
		if l.lacks != nil && l.lacks(spec) != "" {
			t.Logf("the law %s is not tried: the spec has no %s", l.name, l.lacks(spec))
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			for _, b := range hold(t, l, d, spec) {
				t.Error(b)
			}
		})
	}
}

// law is one clause of the contract.
type law[V, M any] struct {
	name     string
	right    string // how it is where the law is kept
	concerns func(d scheduler.Descriptor[V, M]) bool
	lacks    func(s Spec[V, M]) string // what the spec must have for it, "" if it has all
	try      func(x *trial[V, M])
}

// breach is one way in which a law is broken.
type breach struct {
	law, right string
	key        scheduler.Key
	what       string
}

func (b breach) String() string {
	return fmt.Sprintf("%s: %s\n\tlaw %s: %s", b.key, b.what, b.law, b.right)
}

// hold tries one law with a setup of its own.
func hold[V, M any](t testing.TB, l law[V, M], d scheduler.Descriptor[V, M], spec Spec[V, M]) (breaches []breach) {
	x := newTrial(t, d, spec)
	x.report = func(k scheduler.Key, what string) {
		breaches = append(breaches, breach{l.name, l.right, k, what})
	}
	if spec.Setup != nil {
		spec.Setup(t)
	}
	if spec.Bind != nil {
		spec.Bind(x.view)
	}
	defer func() {
		if p := recover(); p != nil {
			x.fail(x.at, "the descriptor panicked: %v", p)
		}
	}()
	defer x.clear()
	l.try(x)
	return breaches
}

// check ends the test if the spec cannot be worked with.
func (s Spec[V, M]) check(t testing.TB, observed bool) {
	t.Helper()
	if observed && (s.Make == nil || s.Remove == nil) {
		t.Fatal("the kind is observed: give the spec Make and Remove")
	}
	if len(s.Samples) == 0 {
		t.Fatal("the spec has no samples: give it a key with a value or two")
	}
	for _, sample := range s.Samples {
		if len(sample.Values) == 0 {
			t.Fatalf("the sample %s has no values: give it one or two", sample.Key)
		}
	}
}

func (s Spec[V, M]) withDefaults() Spec[V, M] {
	if s.Clone == nil {
		s.Clone = func(v V) V { return v }
	}
	if s.Identical == nil {
		s.Identical = func(a, b V) bool { return reflect.DeepEqual(a, b) }
	}
	if s.Normalize == nil {
		s.Normalize = func(_ scheduler.Key, found, _ V) V { return found }
	}
	if s.Patience == 0 {
		s.Patience = time.Minute
	}
	return s
}
