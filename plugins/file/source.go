package file

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/scheduler"
)

// Name is that of the source in transactions.
const Name = "file"

// Options of a source. The zero value works.
type Options struct {
	// Settle is how long a file must stay as it is before it is believed.
	// Default 100 ms.
	Settle time.Duration
	// Rescan is how often the directory is looked at without a hint. Default 30 s.
	Rescan time.Duration
	// Log gets what goes wrong with files; nil logs nothing.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Settle == 0 {
		o.Settle = 100 * time.Millisecond
	}
	if o.Rescan == 0 {
		o.Rescan = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Source keeps the wishes of source "file" equal to the files of a directory.
type Source struct {
	dir  string
	to   intent.Submitter
	opts Options
	// newWatcher is a door for tests.
	newWatcher func() (watcher, error)

	// What follows belongs to Run.
	belief belief
	said   intent.Values
	synced bool // a complete snapshot was sent
	watch  watcher
	// watchErr says why there are no hints.
	watchErr error

	mu     sync.Mutex
	health models.Health
	places map[scheduler.Key]string // file:line of what was said
}

// New makes a source that reads dir and says what it finds to the submitter.
// It works once Run is called.
func New(dir string, to intent.Submitter, o Options) *Source {
	return &Source{
		dir: dir, to: to, opts: o.withDefaults(), newWatcher: newInotify,
		belief: belief{files: map[string]*file{}},
		health: models.Health{Name: Name, State: "starting", Reason: "the files were not read yet", Since: time.Now()},
	}
}

// Name is that of the source in transactions.
func (s *Source) Name() string { return Name }

// Run reads and watches until ctx ends. No trouble with files ends it.
func (s *Source) Run(ctx context.Context) error {
	s.watch, s.watchErr = s.newWatcher()
	var hints <-chan struct{}
	if s.watchErr == nil {
		defer s.watch.Close()
		hints = s.watch.Hints()
	}
	rescan := time.NewTicker(s.opts.Rescan)
	defer rescan.Stop()
	// One timer at a time: steady hints cannot put a look off for ever.
	timer := s.look()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hints:
			if timer == nil {
				timer = time.After(s.opts.Settle)
			}
		case <-rescan.C:
			if timer == nil {
				timer = s.look()
			}
		case <-timer:
			timer = s.look()
		}
	}
}

// retry is how soon a directory that could not be read is tried again.
const retry = time.Second

// look reads the directory and says what is new. If another look is due before
// the next hint, it returns when.
func (s *Source) look() (again <-chan time.Time) {
	if s.watch != nil {
		s.watchErr = s.watch.Add(s.dir) // before reading, so that no change falls between
	}
	found, touched, err := look(s.dir)
	if err != nil {
		s.report(err)
		return time.After(min(retry, s.opts.Rescan))
	}
	quiet := time.Since(touched) > s.opts.Settle
	changed, moving := s.belief.update(s.dir, found, quiet)
	s.say(changed, moving)
	s.report(nil)
	if moving {
		return time.After(s.opts.Settle)
	}
	return nil
}

// say submits what the files want now, as far as it was not said before. While
// files move the word is not called complete.
func (s *Source) say(changed []string, moving bool) {
	now := values(s.belief.files)
	txn := scheduler.Txn{Source: Name, Note: note(changed), Want: intent.Changes(s.said, now), AsPreviewed: true}
	if !s.synced && !moving && s.belief.complete() {
		// From here on what is not named is not wanted.
		txn.Want, txn.Complete = intent.Changes(nil, now), true
		s.synced = true
	}
	s.said = now
	s.mu.Lock()
	s.places = places(s.belief.files)
	s.mu.Unlock()
	if txn.Complete || len(txn.Want) > 0 {
		s.to.Submit(txn)
	}
}

// note names the files that a transaction comes from.
func note(changed []string) string {
	const most = 3
	switch {
	case len(changed) == 0:
		return "intent files"
	case len(changed) > most:
		return fmt.Sprintf("intent files %s and %d more", strings.Join(changed[:most], ", "), len(changed)-most)
	}
	return "intent files " + strings.Join(changed, ", ")
}

// report updates the health after a look that failed with err, or did not.
func (s *Source) report(err error) {
	h := models.Health{Name: Name, State: "ok", Details: map[string]string{"directory": s.dir}}
	bad := 0
	for _, name := range sorted(maps.Keys(s.belief.files)) {
		f := s.belief.files[name]
		if f.err == nil {
			continue
		}
		if bad++; bad == 1 {
			h.Reason = f.err.Error()
		}
	}
	switch {
	case err != nil:
		h.State, h.Reason = "down", fmt.Sprintf("%v; what was read before stays", err)
	case bad > 1:
		h.State, h.Reason = "degraded", fmt.Sprintf("%s; and %d more files are bad; what was read of them before stays", h.Reason, bad-1)
	case bad == 1:
		h.State, h.Reason = "degraded", h.Reason+"; what was read of it before stays"
	case s.belief.last == nil || !s.synced:
		h.State, h.Reason = "starting", "the files still change"
	case len(s.belief.files) == 0:
		h.Reason = "the directory has no file that ends in .yaml, .yml or .json"
	default:
		h.Reason = s.belief.empty()
	}
	invalid := 0
	for _, w := range s.said {
		if w.Err() != nil {
			invalid++
		}
	}
	h.Details["files"] = fmt.Sprint(len(s.belief.files))
	h.Details["keys"] = fmt.Sprint(len(s.said))
	h.Details["invalid"] = fmt.Sprint(invalid)
	if s.watchErr != nil {
		h.Details["watch"] = fmt.Sprintf("%v; looking every %v", s.watchErr, s.opts.Rescan)
	}
	s.setHealth(h)
}

func (s *Source) setHealth(h models.Health) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.Since = s.health.Since
	if h.State != s.health.State {
		h.Since = time.Now()
	}
	if h.State != s.health.State || h.Reason != s.health.Reason {
		level := slog.LevelInfo
		if h.State != "ok" {
			level = slog.LevelWarn
		}
		s.opts.Log.Log(context.Background(), level, "intent files", "state", h.State, "reason", h.Reason)
	}
	s.health = h
}

// Place tells which file says the key, and in which line; "" if none does.
func (s *Source) Place(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places[scheduler.Key(key)]
}

// Health tells how the source stands.
func (s *Source) Health() models.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.health
	h.Details = maps.Clone(h.Details)
	return h
}
