package confirm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/plumb-net/plumb/models"
)

// Store is what is written and taken back; plugins/etcd is one.
type Store interface {
	Get(ctx context.Context, key string) (kv models.Stored, ok bool, err error)
	Write(ctx context.Context, writes []models.Write) (revision int64, err error)
	// Reached blocks until the intent of the revision was handed to the scheduler.
	Reached(ctx context.Context, revision int64) error
	// Override has values count in place of others while the store holds these.
	Override(list []models.Override)
}

// Options are what a Confirmer works with.
type Options struct {
	Store Store
	// Settled blocks until the keys have settled. Probes are tried from then on.
	Settled func(ctx context.Context, keys []string) error
	// TakeBack announces that keys are about to be taken from the intent, until the end of
	// that is told, so that they are not held back for being many; nil: nobody asks.
	TakeBack func(keys []string) (end func())
	// Probe tries a probe once and says why it fails. It ends with its context.
	Probe func(ctx context.Context, probe string) error
	// Log gets what operators should know; nil: nothing is logged.
	Log *slog.Logger
}

// Errors of calls about a change.
var (
	// ErrNone: nothing waits to be confirmed.
	ErrNone = errors.New("no change waits to be confirmed")
	// ErrOther: another change waits than the one that is named.
	ErrOther = errors.New("another change waits to be confirmed")
	// ErrReverting: it is too late.
	ErrReverting = errors.New("the change is being taken back already")
)

// Confirmer holds the change that has to be confirmed, if there is one. Its methods may be
// called from any goroutine.
type Confirmer struct {
	Options
	record record
	damage string

	mu    sync.Mutex
	trial *Trial
	begun chan struct{} // has a token when there is a new trial
}

// Open reads what an earlier run left. A change whose time is over while nobody was there
// is taken back from now on: its former values count at once, whether the store answers or
// not. A record that cannot be read is put aside, and what it was about stays.
func Open(dir string, o Options) *Confirmer {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.TakeBack == nil {
		o.TakeBack = func([]string) func() { return func() {} }
	}
	c := &Confirmer{Options: o, record: recordIn(dir), begun: make(chan struct{}, 1)}
	p, err := c.record.read()
	switch {
	case err != nil:
		c.setAside(err)
	case p != nil:
		c.resume(*p)
	}
	return c
}

func (c *Confirmer) setAside(why error) {
	to, err := c.record.aside()
	if err != nil {
		to = string(c.record)
	}
	c.damage = fmt.Sprintf("a change was to be confirmed, and its record cannot be read: it stays as it is (%v); see %s", why, to)
	c.Log.Error("a change that was to be confirmed stays: its record cannot be read", "error", why, "copy", to)
}

// anyRevision is reached when the store was read at all: it held the change before.
const anyRevision = 1

func (c *Confirmer) resume(p Pending) {
	if window := p.Deadline.Sub(p.Began); !p.Began.IsZero() && time.Until(p.Deadline) > window {
		// The clock was set back. The change must not stay unconfirmed for longer because of that.
		p.Began, p.Deadline = time.Now(), time.Now().Add(window)
		if err := c.record.write(p); err != nil {
			c.Log.Warn("record of the change to be confirmed not updated", "error", err)
		}
	}
	c.trial = newTrial(c, p)
	c.trial.Written(anyRevision)
	c.wake()
	if p.Reverting == "" && !time.Now().Before(p.Deadline) {
		c.trial.startReverting(late(p))
	}
	if p := c.trial.Pending(); p.Reverting != "" {
		c.trial.announce()
		c.Store.Override(p.overrides())
	}
}

func late(p Pending) string {
	return "nobody confirmed it until " + p.Deadline.Local().Format(time.DateTime)
}

// Damage says what was wrong with the record of an earlier run; empty if nothing was.
func (c *Confirmer) Damage() string { return c.damage }

// Outstanding is the change that waits; nil if there is none.
func (c *Confirmer) Outstanding() *Trial {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trial
}

// Begin writes a change down that is about to be written into the store. Its time runs
// from now on. It is refused while another one waits.
func (c *Confirmer) Begin(p Pending) (*Trial, error) {
	t, err := c.begin(p)
	if t != nil && err == nil {
		return t, nil
	}
	if t != nil {
		err = fmt.Errorf("%w: %s", ErrOther, t.Pending().describe())
	}
	return nil, err
}

// begin returns the other change with an error if there is one.
func (c *Confirmer) begin(p Pending) (*Trial, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trial != nil {
		return c.trial, ErrOther
	}
	if err := c.record.write(p); err != nil {
		return nil, fmt.Errorf("the change cannot be written down, so nothing was done: %w", err)
	}
	c.trial = newTrial(c, p)
	c.wake()
	return c.trial, nil
}

func (c *Confirmer) wake() {
	select {
	case c.begun <- struct{}{}:
	default:
	}
}

// describe is a change in a few words.
func (p Pending) describe() string {
	out := p.Name
	if p.By != "" {
		out += " by " + p.By
	}
	return fmt.Sprintf("%s, until %s", out, p.Deadline.Local().Format(time.DateTime))
}

// Find is the change that waits, if it has the name; any, if name is empty.
func (c *Confirmer) Find(name string) (*Trial, error) {
	t := c.Outstanding()
	if t == nil {
		return nil, ErrNone
	}
	if p := t.Pending(); name != "" && name != p.Name {
		return nil, fmt.Errorf("%w: %s", ErrOther, p.describe())
	}
	return t, nil
}

// Run takes back what has to be, until ctx ends.
func (c *Confirmer) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.begun:
		}
		if t := c.Outstanding(); t != nil {
			t.run(ctx)
		}
	}
}
