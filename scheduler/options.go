package scheduler

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/plumb-net/plumb/scheduler/kv"
)

// Options of a scheduler. The zero value works.
type Options struct {
	// Sources are the names of all who may want something, the strongest
	// first. Nothing is deleted for being unwanted before each of them has
	// sent a complete snapshot once. Default: one source named "".
	Sources []string

	// Grace, if set, is how long after the start of Run a source that has not
	// synced is waited for. Then it counts as wanting nothing, and what nobody
	// wants is deleted.
	Grace time.Duration

	// Timeout bounds one operation of a kind that sets none. Default 30 s.
	Timeout time.Duration
	// StopTimeout is how long Run waits at its end for operations under way.
	// Default 4 s.
	StopTimeout time.Duration
	// Workers is how many operations may run at once, those that overran a
	// few milliseconds not counted. Default 8.
	Workers int

	// RetryMin and RetryMax bound the backoff between attempts, which
	// doubles. Defaults 1 s and 5 min. Jitter is the share of a delay that is
	// random, half of it below and half above, default 0.2.
	RetryMin, RetryMax time.Duration
	Jitter             float64

	// HistoryCount bounds the records that are kept, HistoryBytes the records
	// and the changes of keys together. Defaults 1,000 and 8 MiB; fewer than no
	// bytes keep no history.
	HistoryCount, HistoryBytes int
	// Earlier are records of earlier runs, oldest first, as a Follower gave
	// them: they count as history, and the numbers of transactions go on.
	Earlier []Record

	// Policies say how keys are to be treated: what others change, what comes
	// and goes, how often the actual state is read. New panics if they are
	// contradictory; see [CheckPolicies].
	Policies []Policy

	// Log gets a line for every operation and read that failed, and one for each
	// transaction that did something, when it has come to rest; nil logs nothing. It is
	// written outside the loop, and lines are dropped rather than waited for.
	Log *slog.Logger
	// Clock and Rand are doors for tests. Defaults: the real ones. A Clock is used
	// from several goroutines, Rand by one at a time.
	Clock Clock
	Rand  func() float64

	policies kv.Policies // Policies, checked
}

// Clock is the scheduler's only way to know the time.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in its own goroutine after d; stop prevents that.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }
func (realClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

func (o Options) withDefaults() Options {
	policies, err := kv.Checked(o.Policies)
	if err != nil {
		panic("scheduler: " + err.Error())
	}
	o.Policies, o.policies = policies, policies
	if len(o.Sources) == 0 {
		o.Sources = []string{""}
	}
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&o.Timeout, 30*time.Second)
	set(&o.StopTimeout, 4*time.Second)
	set(&o.RetryMin, time.Second)
	set(&o.RetryMax, 5*time.Minute)
	if o.Workers == 0 {
		o.Workers = 8
	}
	if o.Jitter == 0 {
		o.Jitter = 0.2
	}
	if o.HistoryCount == 0 {
		o.HistoryCount = 1000
	}
	if o.HistoryBytes == 0 {
		o.HistoryBytes = 8 << 20
	}
	if o.Clock == nil {
		o.Clock = realClock{}
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	roll, mu := o.Rand, sync.Mutex{}
	o.Rand = func() float64 { // the loop asks, and each watch that broke
		mu.Lock()
		defer mu.Unlock()
		return roll()
	}
	return o
}

// ParseDeletions reads a limit as Deletions.String writes it: "off", "200", "50%", "200,50%".
func ParseDeletions(text string) (Deletions, error) { return kv.ParseDeletions(text) }

// ParseDisruptions reads a limit as Disruptions.String writes it: "off", "5/min".
func ParseDisruptions(text string) (Disruptions, error) { return kv.ParseDisruptions(text) }

// CheckPolicies tells what is wrong with policies, nil if nothing is.
func CheckPolicies(policies []Policy) error {
	_, err := kv.Checked(policies)
	return err
}
