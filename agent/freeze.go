package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/plugins/private"
	"github.com/plumb-net/plumb/scheduler"
)

// freezeFile is the name of the freeze in the state directory.
const freezeFile = "freeze.json"

// freezer holds everything by a pause of all keys. It is on disk, so that a restart of
// the agent does not end it.
type freezer struct {
	sched *scheduler.Scheduler
	path  string

	mu  sync.Mutex
	now *api.Freeze
	// shadow: nothing is ever done by this process.
	shadow bool
}

var errShadow = errors.New("this agent is a shadow, which does nothing to the network; start it without --shadow")

// beShadow has the process do nothing, whatever is said later.
func (f *freezer) beShadow() error {
	f.shadow = true
	f.now = &api.Freeze{Message: "this agent is a shadow (--shadow)", Since: time.Now(), Shadow: true}
	return f.sched.Shadow(whyFrozen(f.now))
}

// openFreezer goes on with a freeze of an earlier run. One that cannot be read holds too:
// somebody wanted that nothing is done.
func openFreezer(dir string, s *scheduler.Scheduler, log *slog.Logger) (*freezer, error) {
	f := &freezer{sched: s, path: filepath.Join(dir, freezeFile)}
	text, err := private.ReadState(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	now := new(api.Freeze)
	if err == nil {
		err = json.Unmarshal(text, now)
	}
	if err != nil {
		*now = api.Freeze{Message: fmt.Sprintf("%s cannot be read (%v)", f.path, err), Since: time.Now()}
	}
	if over(now) {
		return f, os.Remove(f.path)
	}
	log.Warn("everything is frozen", "by", now.By, "message", now.Message, "until", now.Until)
	f.now = now
	return f, f.hold()
}

func over(f *api.Freeze) bool { return !f.Until.IsZero() && !time.Now().Before(f.Until) }

// hold pauses everything. f.mu is held, or nobody else knows f.
func (f *freezer) hold() error {
	return f.sched.Pause("", whyFrozen(f.now), f.now.Until)
}

func whyFrozen(f *api.Freeze) string {
	why := "everything is frozen: " + f.Message
	if f.By != "" {
		why += ", by " + f.By
	}
	return why
}

func (f *freezer) Freeze(next api.Freeze) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shadow {
		return errShadow
	}
	text, err := json.MarshalIndent(next, "", "  ")
	if err == nil {
		err = private.WriteFile(f.path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("the freeze cannot be written down, so nothing is frozen: %w", err)
	}
	f.now = &next
	return f.hold()
}

func (f *freezer) Unfreeze() (*api.Freeze, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.frozen()
	if f.shadow {
		return nil, errShadow
	}
	if was == nil {
		return nil, nil
	}
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the freeze stays: %w", err)
	}
	f.now = nil
	if err := f.sched.Resume(""); err != nil && !errors.Is(err, scheduler.ErrNotPaused) { // its time was over just now
		return nil, err
	}
	return was, nil
}

func (f *freezer) Frozen() *api.Freeze {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.frozen()
}

// frozen forgets a freeze whose time is over, which the scheduler has ended. f.mu is held.
func (f *freezer) frozen() *api.Freeze {
	if f.now != nil && over(f.now) {
		f.now = nil
		_ = os.Remove(f.path) // else the next start finds that it is over
	}
	return f.now
}
