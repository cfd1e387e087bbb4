package schedulertest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// Fault is what goes wrong with one operation, one read or one event.
type Fault uint8

// The faults.
const (
	None Fault = iota

	// Of operations and reads.
	Fail    // nothing is done, an error is returned
	Panic   // nothing is done, the descriptor panics
	Hang    // nothing happens until Release, whatever the context says; then it is done
	Crash   // it is done, and the scheduler's process ends before it learns of that
	maxRead // what a read can meet is before this

	// Of operations.
	FailAfter    // it is done, and an error is returned all the same
	FailHalf     // half of it is done: the thing is there, with the text "half"
	FailForever  // nothing is done, and trying again is pointless
	FailLater    // nothing is done, and the next try is due in 10 s
	FailInvalid  // nothing is done, the value is refused
	FailConflict // nothing is done, somebody else's is there
	Slow         // it is done after 3 s
	maxOperation

	// Of events.
	Lost    // nobody hears of it
	Late    // it is heard of 5 s later
	Doubled // it is heard of twice
	maxEvent

	// Of operations, and only where they are ordered.
	FailBlocked    // nothing is done, it waits for the key o/gate
	FailGone       // nothing is done, the object is said not to be there
	FailIncomplete // as FailHalf, with the error Incomplete(Terminal)
	maxFault
)

const (
	lateness = 5 * time.Second
	slowness = 3 * time.Second
)

var faultNames = [maxFault]string{None: "none", Fail: "fail", Panic: "panic", Hang: "hang", Crash: "crash",
	FailAfter: "fail-after", FailHalf: "fail-half", FailForever: "fail-forever", FailLater: "fail-later", FailInvalid: "invalid", FailConflict: "conflict", Slow: "slow",
	Lost: "lost", Late: "late", Doubled: "doubled",
	FailBlocked: "blocked", FailGone: "gone", FailIncomplete: "incomplete"}

func (f Fault) String() string { return faultNames[f] }

// ParseFault is the reverse of String.
func ParseFault(name string) (Fault, error) {
	if i := slices.Index(faultNames[:], name); i >= 0 && name != "" {
		return Fault(i), nil
	}
	return None, fmt.Errorf("no fault is called %q", name)
}

// FaultsOf are the faults that an operation ("create", "update", "delete"), a
// read ("look") or an event ("events") can meet.
func FaultsOf(op string) []Fault {
	var out []Fault
	for f := Fail; f < maxFault; f++ {
		if faultNames[f] != "" && f < maxEvent && f.fits(op) {
			out = append(out, f)
		}
	}
	return out
}

func (f Fault) fits(op string) bool {
	switch op {
	case "look":
		return f < maxRead
	case "events":
		return f > maxOperation && f < maxEvent
	}
	return f < maxOperation || f > maxEvent
}

// ErrFault is what failing operations return.
var ErrFault = errors.New("fault")

func (f Fault) err() error {
	switch f {
	case Fail, FailAfter, FailHalf:
		return ErrFault
	case FailForever:
		return scheduler.Terminal(ErrFault)
	case FailLater:
		return scheduler.Retry(ErrFault, 10*time.Second)
	case FailInvalid:
		return scheduler.Invalid("text", "the system refuses it")
	case FailConflict:
		return scheduler.Conflict("somebody", ErrFault)
	case FailBlocked:
		return scheduler.Blocked("o/gate", ErrFault)
	case FailGone:
		return scheduler.NotFound(ErrFault)
	case FailIncomplete:
		return scheduler.Incomplete(scheduler.Terminal(ErrFault))
	}
	return nil
}

// undone reports whether the operation does nothing.
func (f Fault) undone() bool {
	return f != None && f != FailAfter && !f.halves() && f != Hang && f != Crash && f != Slow
}

// halves reports whether the operation does half of what it should.
func (f Fault) halves() bool { return f == FailHalf || f == FailIncomplete }

// half is a thing of which an operation that failed has done half.
func half(t Thing) Thing {
	t.Text = "half"
	return t
}

// Order is one fault that was asked for in words.
type Order struct {
	// Op is "create", "update", "delete", "look" or "events"; "operation" is
	// any of the first three.
	Op string
	// Target is a key, or all below it if it ends in a slash. A read of a
	// whole kind has the kind's prefix, "a/".
	Target scheduler.Key
	// Skip is how many that fit are spared first.
	Skip  int
	Fault Fault
	Times int // 0 means always
}

// ParseOrder reads what String writes:
//
//	create a/1: fail             whenever a/1 is created
//	update a/: fail-after twice  the next two updates of any a
//	operation 3: crash           the third operation from now on
//	look a/: fail once           the next read of the kind; of a/1: only that key
//	events o/: lost 3 times
func ParseOrder(line string) (Order, error) {
	about, what, ok := strings.Cut(line, ": ")
	a, w := strings.Fields(about), strings.Fields(what)
	if !ok || len(a) != 2 || len(w) == 0 {
		return Order{}, fmt.Errorf("%q orders no fault: say for example %q", line, "create a/1: fail twice")
	}
	o := Order{Op: a[0], Target: scheduler.Key(a[1])}
	if !slices.Contains([]string{"create", "update", "delete", "release", "look", "events", "operation"}, o.Op) {
		return o, fmt.Errorf("nothing is called %q", o.Op)
	}
	if n, err := strconv.Atoi(a[1]); err == nil {
		o.Target, o.Skip, o.Times = "", n-1, 1
	}
	var err error
	if o.Fault, err = ParseFault(w[0]); err != nil {
		return o, err
	}
	if !o.Fault.fits(o.Op) {
		return o, fmt.Errorf("%s cannot be: %s", o.Op, o.Fault)
	}
	return o, o.times(w[1:])
}

func (o *Order) times(w []string) error {
	switch {
	case len(w) == 0:
	case len(w) == 1 && w[0] == "once":
		o.Times = 1
	case len(w) == 1 && w[0] == "twice":
		o.Times = 2
	case len(w) == 2 && w[1] == "times":
		var err error
		o.Times, err = strconv.Atoi(w[0])
		return err
	default:
		return fmt.Errorf("%q is no number of times: say once, twice or 3 times", strings.Join(w, " "))
	}
	return nil
}

// String is the order as ParseOrder reads it.
func (o Order) String() string {
	target := string(o.Target)
	if target == "" {
		return fmt.Sprintf("%s %d: %s", o.Op, o.Skip+1, o.Fault)
	}
	out := o.Op + " " + target + ": " + o.Fault.String()
	switch o.Times {
	case 0:
		return out
	case 1:
		return out + " once"
	case 2:
		return out + " twice"
	}
	return out + " " + strconv.Itoa(o.Times) + " times"
}

func (o Order) fits(op string, k scheduler.Key) bool {
	if o.Op != op && (o.Op != "operation" || op == "look" || op == "events") {
		return false
	}
	return o.Target == "" || o.Target == k || strings.HasSuffix(string(o.Target), "/") && strings.HasPrefix(string(k), string(o.Target))
}

// orders are the faults that are yet to come.
type orders []Order

// next takes the fault for one operation from the first order that fits.
func (os *orders) next(op string, k scheduler.Key) Fault {
	for i := range *os {
		o := &(*os)[i]
		switch {
		case !o.fits(op, k):
			continue
		case o.Skip > 0:
			o.Skip--
			continue
		}
		f := o.Fault
		if o.Times == 1 {
			*os = slices.Delete(*os, i, i+1)
		} else if o.Times > 1 {
			o.Times--
		}
		return f
	}
	return None
}
