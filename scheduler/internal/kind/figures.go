package kind

import (
	"time"

	"github.com/plumb-net/plumb/scheduler/kv"
)

// Bounds are the upper bounds of the classes in which the time of operations is counted.
var Bounds = [...]time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second}

// Counted are the operations that are counted, in the order of [Kind.Figures].
var Counted = [...]kv.Operation{kv.OpCreate, kv.OpUpdate, kv.OpDelete}

// Figures are how many operations of one sort have ended, and how long they took.
type Figures struct {
	OK, Failed uint64
	Took       time.Duration
	Within     [len(Bounds)]uint64 // how many took no longer than each of Bounds
}

// Drift is how often others have changed what was as wanted, and how often that was repaired.
type Drift struct{ Found, Repaired uint64 }

// Count notes an operation that has ended.
func (k *Kind) Count(o *Op) {
	for i, what := range Counted {
		if o.What == what {
			k.Figures[i].count(o)
		}
	}
}

func (f *Figures) count(o *Op) {
	if o.Err == nil {
		f.OK++
	} else {
		f.Failed++
	}
	f.Took += o.Took
	for i, b := range Bounds {
		if o.Took <= b {
			f.Within[i]++
		}
	}
}
