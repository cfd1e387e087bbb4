package scheduler

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Descriptor says what the scheduler must know about one kind of thing. V is
// the type of its values, M what an operation remembers about an object that
// it made (an interface index, a handle); use struct{} for none.
//
// Values are immutable once handed over. The pure functions (Needs, Derive,
// Claims, Validate, Equal, Compare, Lane, Disruption) run in the scheduler's
// loop: they must be quick, must not block and must not keep or change their
// arguments. The others do I/O; they run outside the loop and get a context that
// ends at the operation's deadline. Operations on one key, and reads of that key,
// never run at the same time; those on different keys do, and a read of the whole
// kind may run beside them.
//
// A panic harms no other key. One of an operation or a read is its error. One of
// a pure function makes the key invalid until something else is wanted of it;
// those of Lane and Disruption do not: the operations share one lane then, and the
// plan says the worst.
//
// When Create, Update and Delete are called, every need of the value is in
// place, and stays in place until they return.
//
// An error of an operation is tried again with backoff, unless it says otherwise:
// [Retry] says when, [Terminal] and [Unsupported] that it is pointless, an
// [InvalidError] that the value is to blame, [Conflict] who is in the way. After
// an error the key is read, if there is Retrieve, before anything else is done.
// An operation that ends with its context's error is one that failed.
//
// The package schedulertest holds a descriptor to all this; see Conform there.
type Descriptor[V, M any] struct {
	// Name is the kind as operators know it: "route".
	Name string
	// Prefix holds all keys of the kind, and no others: "route/".
	Prefix Key

	// Create makes the object. Finding it made already, equal and ours, is
	// success. Finding somebody else's is a [Conflict], or success if the kind
	// takes such things over; see Release. An observed kind has neither Create
	// nor Delete: its objects come and go by themselves and only satisfy needs.
	Create func(ctx context.Context, k Key, v V) (M, error)
	// Delete removes the object. Finding nothing is success. v and m are what is
	// believed to be there: m is zero if no operation and no read ever gave one.
	Delete func(ctx context.Context, k Key, v V, m M) error
	// Needs says what must be in place before the object can be.
	Needs func(k Key, v V) []Need

	// The rest is optional. What is nil is a capability the kind lacks.

	// Release gives back an object that somebody else made and Create took
	// over: it stays, and is again as it was found, if that can be. found is
	// what was seen there; if Create found it gone and made it, it is removed.
	// Delete is for what Create made, and for what was taken over before a
	// restart, if Retrieve says that it is ours. A kind without Release takes
	// nothing over: its Create answers with a [Conflict].
	Release func(ctx context.Context, k Key, v, found V, m M) error
	// GivesBack reports whether Delete would leave the object in place, because it was taken over.
	// The history then records OpGiveBack. It is called before Delete.
	GivesBack func(k Key, v V, m M) bool
	// Update changes the object in place. Without it every change replaces. What
	// it leaves must be what creating the new value would have left. Finding
	// nothing to change is an error, or the object is made.
	Update func(ctx context.Context, k Key, from, to V, m M) (M, error)
	// Compare decides how to get from one value to another: nothing to do,
	// update in place, or replace. Without it: Equal, then Update if there is
	// one. With it Equal is not asked, and without Update all is replaced.
	Compare func(k Key, from, to V) Verdict
	// Equal reports whether the actual object is what was asked. Without
	// it: the method Equal(V) bool of V if it has one, else == or
	// reflect.DeepEqual. Values that are protobuf messages need Equal, such as
	// proto.Equal, or Compare: their internal state differs between equal
	// messages, and changes when one is encoded.
	Equal func(k Key, actual, desired V) bool
	// Validate refuses a value before anything is touched; see [InvalidError].
	Validate func(k Key, v V) error
	// Derive splits off values of other kinds, which live and die with this
	// one. Each needs this value without saying so. An observed kind may derive what is
	// to be made for each thing that is there.
	Derive func(k Key, v V) []Change
	// DerivedBy returns the key whose value derives a key of this kind, if the key's name says
	// so, and "" otherwise. With it, an object of an earlier run is known to belong to a
	// value that does not derive it any more: it is not a deletion by itself. See
	// [Deletions].
	DerivedBy func(k Key) Key
	// Claims names what only one value may have at a time (a host name in a
	// namespace). Who actually has it keeps it for as long as it claims it; of
	// those that never had it the stronger source, then the smaller key, gets it.
	// The others are invalid, name the owner and wake when it lets go.
	//
	// A name should be of one kind: nothing of a kind is made before all of it was
	// read, but another kind may be read later.
	Claims func(k Key, v V) []Claim

	// Secrets splits off what must not be told: shown is the value with each secret left
	// out or replaced by a fixed text, secrets are all of them, in a fixed order. What the
	// scheduler tells of the value, in statuses, plans, history, records and logs, is shown;
	// texts of errors have the secrets masked. Only this descriptor, and who reads the kind
	// by [Kind], gets the value itself.
	//
	// Secrets need not be found again by Retrieve: compared is what is shown, and secrets
	// with those that were applied last. After a restart nobody knows them: a value with
	// secrets is updated once, if the kind has Update.
	Secrets func(v V) (shown V, secrets []string)

	// Retrieve reads the actual state. It yields every object of the kind within
	// the scope; what it does not yield is not there. An error yielded with
	// a key makes that key unknown, one without a key all keys of the scope. If
	// the scope is all of the kind what is known stays, as last seen. Of neither
	// anything is taken down, and nothing new is built on it before it was read
	// again, or made. So if the actual state cannot be read, say so, and never yield
	// less. What is yielded is read, not remembered; Found.Meta is
	// what Create would return.
	// Without Retrieve the scheduler believes its own operations.
	Retrieve func(ctx context.Context, s Scope[V, M]) iter.Seq2[Found[V, M], error]
	// ReadAfter names kinds whose typed views Retrieve reads, as needs between values do
	// not say in which order kinds are read. Retrieve is called when no read of all of
	// these is due or under way, and finds in their views what they found; as long as one
	// of them was never read this kind cannot be read either. A kind that is not registered
	// is not waited for; when it is at last, this one is read again after it.
	ReadAfter []string
	// Watch runs for as long as the kind is registered and calls notify with
	// the keys that may have changed; no keys means all of the kind.
	// Notifications are hints: they may be doubled, late, or of our own doing.
	// What happens after Watch was called must not go unsaid: one that takes
	// time to begin calls notify without keys when it has begun. notify never
	// blocks. When Watch returns before ctx has ended it is started again with
	// backoff and the whole kind is re-read.
	Watch func(ctx context.Context, notify func(keys ...Key)) error
	// ChangedBy says who has changed or removed the object of a key, as far as Watch could
	// tell when it named the key: "ip (process 4711)"; "" if nobody knows. It is asked when
	// the key is found not to be as wanted any more, in the loop: it must be quick and not
	// block. An answer is of one change, so it is given once.
	ChangedBy func(k Key) string
	// Interest tells an observed kind that some value needs the key (true) or
	// none does any more (false), for kinds whose objects are watched on
	// demand. It must not block.
	Interest func(k Key, wanted bool)

	// CreateBatch and DeleteBatch do many at once when many are ready at once.
	// Each entry gets its own Meta and Err. A kind that has them has them called
	// for single entries as well. A batch runs alone on the lanes of all that is
	// in it; what is of one lane is in the order in which it became due.
	CreateBatch func(ctx context.Context, ops []*Op[V, M])
	DeleteBatch func(ctx context.Context, ops []*Op[V, M])

	// Lane names what an operation must be alone on: operations of the kind with
	// the same lane run one after another; other kinds and reads do not wait.
	// Without it, or with "", an operation only waits for its own key.
	Lane func(k Key, v V) string
	// Timeout bounds one operation; see Options.Timeout for the default.
	Timeout time.Duration
	// Disruption says what a change does to traffic, for plans.
	Disruption func(k Key, from, to V) Disruption

	// Encode and Decode turn a value into bytes and back, for what outlives
	// the process: saved plans, history on disk. Equal values have equal
	// bytes. Values of a kind without them do not outlive it. They run
	// anywhere, also at the same time.
	Encode func(v V) ([]byte, error)
	Decode func(b []byte) (V, error)
}

// Op is one entry of a batch. Key, Value and, for deletions, Meta are given;
// the batch sets Err and, for creations, Meta.
type Op[V, M any] struct {
	Key   Key
	Value V
	Meta  M
	Err   error
}

// Scope says what to read: everything of the kind (All), or these keys.
type Scope[V, M any] struct {
	All  bool
	Keys []Key // sorted
	// Known yields what the scheduler believes or wants of the keys in
	// scope, as a hint where to search. A value that was never in place has
	// the zero Meta and InPlace false.
	Known []Known[V, M]
	// ReadOnly: what is found is only shown to somebody, the scheduler learns nothing of
	// it; see [Scheduler.Inspect]. Such a reading changes nothing, neither of what is
	// there nor of what the descriptor keeps of it: if it took note of what it saw, the event
	// that tells the scheduler would be no news any more when it comes.
	ReadOnly bool
}

// Has reports whether a key is in the scope.
func (s Scope[V, M]) Has(k Key) bool {
	_, in := slices.BinarySearch(s.Keys, k)
	return s.All || in
}

// Known is what the scheduler believes (InPlace) or wants of a key.
type Known[V, M any] struct {
	Key     Key
	Value   V
	Meta    M
	InPlace bool
}

// Found is one object that is there.
type Found[V, M any] struct {
	Key   Key
	Value V
	// Meta is what Create would have returned. When it differs, what was built
	// with a part of it ([Project]) is built anew.
	Meta M
	// Foreign objects were not made by us: they satisfy needs and are never
	// deleted. For observed kinds it is implied.
	Foreign bool
	// Owner says who made the object, if it was surely somebody else; for who reads it. An
	// object that is not Foreign and has an Owner was put into what is ours, and is deleted.
	Owner string
}

// check tells what is wrong with a descriptor, and how to mend it. What two
// kinds could have against each other is little: their prefixes must not
// overlap. Kinds are read in no order, since nothing is done before all that it
// may depend on was read; what values need is judged value by value, so kinds
// may need each other, and only values can form a cycle.
func check[V, M any](d Descriptor[V, M]) error {
	switch {
	case d.Name == "" || strings.ContainsAny(d.Name, " \t\n"):
		return errors.New("it has no Name of one word: give it the name that operators know it by, as in \"route\"")
	case d.Prefix == "" || !strings.HasSuffix(string(d.Prefix), "/"):
		return fmt.Errorf("its Prefix is %q: end it with a slash, as in \"route/\"", d.Prefix)
	case (d.Create == nil) != (d.Delete == nil):
		return errors.New("it has one of Create and Delete: an observed kind has neither, any other has both")
	case (d.Encode == nil) != (d.Decode == nil):
		return errors.New("it has one of Encode and Decode: give it both, or none")
	case len(d.ReadAfter) > 0 && d.Retrieve == nil:
		return errors.New("it has ReadAfter and no Retrieve: drop it, or say how it is read")
	case d.Equal == nil && d.Compare == nil && isMessage[V]():
		return errors.New("its values are protobuf messages, and it has neither Equal nor Compare: give it Equal with proto.Equal")
	case d.Timeout < 0:
		return fmt.Errorf("its Timeout is %s: give it none for the default", d.Timeout)
	case d.Create == nil:
		return checkObserved(d)
	case d.Interest != nil:
		return errors.New("it has Interest, which is for observed kinds: drop it, or Create and Delete")
	}
	return nil
}

// isMessage reports whether values of a type are protobuf messages, of which reflect.DeepEqual would
// compare the internal state as well.
func isMessage[V any]() bool {
	t := reflect.TypeFor[V]()
	_, message := t.MethodByName("ProtoReflect")
	_, compares := t.MethodByName("Equal")
	return message && !compares
}

func checkObserved[V, M any](d Descriptor[V, M]) error {
	var idle []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"Needs", d.Needs != nil}, {"Update", d.Update != nil}, {"Release", d.Release != nil}, {"GivesBack", d.GivesBack != nil}, {"Validate", d.Validate != nil},
		{"Claims", d.Claims != nil}, {"Lane", d.Lane != nil}, {"Disruption", d.Disruption != nil},
		{"CreateBatch", d.CreateBatch != nil}, {"DeleteBatch", d.DeleteBatch != nil}, {"ChangedBy", d.ChangedBy != nil},
	} {
		if f.set {
			idle = append(idle, f.name)
		}
	}
	switch {
	case len(idle) > 0:
		return fmt.Errorf("it has no Create, so it is observed: drop %s, or give it Create and Delete", strings.Join(idle, ", "))
	case d.Derive != nil && d.Interest != nil:
		return errors.New("it has Derive and Interest: what nobody needs is not looked at, so nothing can be derived of it; drop one")
	case d.Retrieve == nil:
		return errors.New("an observed kind needs Retrieve: how else would it be known")
	}
	return nil
}
