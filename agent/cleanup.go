package agent

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/progress"
	"github.com/plumb-net/plumb/scheduler"
)

// cleanupTime is how long cleanup may take in all.
const cleanupTime = 2 * time.Minute

// readSoon is how often it is asked whether everything has been read.
const readSoon = 20 * time.Millisecond

// Cleared counts what a cleanup has removed, what it has given back, and what is left as far
// as it is known.
type Cleared struct{ removed, givenBack, left atomic.Int64 }

// Show tells it to a [progress.Line].
func (c *Cleared) Show(elapsed time.Duration) []string {
	return []string{fmt.Sprintf("%s, %d left", c.done(""), c.left.Load()), progress.Time(elapsed)}
}

// done is what was done, by the name of one of what was removed, which may be left out.
func (c *Cleared) done(object string) string {
	removed := c.removed.Load()
	text := fmt.Sprint(removed)
	if object != "" {
		text += " " + object
		if removed != 1 {
			text += "s"
		}
	}
	text += " removed"
	if n := c.givenBack.Load(); n > 0 {
		text += fmt.Sprintf(", %d given back", n)
	}
	return text
}

// staying are the keys of what was there before us, and is given back.
func staying(entries []kernel.Entry) map[scheduler.Key]bool {
	stays := map[scheduler.Key]bool{}
	for _, e := range entries {
		_, taken := e.TakenOver()
		stays[scheduler.Key(e.ID)] = taken || e.Adopted() || strings.HasPrefix(e.ID, models.KindSysctl+"/")
	}
	return stays
}

// Cleanup removes everything that this label ever made, and nothing else. It
// never touches etcd. It refuses while the agent runs.
//
// It is the scheduler with the same kinds and one source that wants nothing:
// so things go in the right order, for the same reasons as ever.
func Cleanup(ctx context.Context, c Config, log *slog.Logger, out io.Writer, cleared *Cleared) error {
	h, err := openHost(c, thisHost, log)
	if err != nil {
		return err
	}
	defer h.close()
	if err := h.read(c, log); err != nil {
		return err
	}
	openAllNamespaces(h.kernel, c)

	s := scheduler.New(scheduler.Options{Sources: []string{"cleanup"}, RetryMin: 200 * time.Millisecond, RetryMax: 5 * time.Second})
	if err := registerLinux(s, h, c, nil, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	run, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(run) }()
	defer func() { stop(); <-ended }() //nolint:errcheck // it ends because it is told to

	l := &leftovers{stays: staying(h.owner.Entries("")), left: map[scheduler.Key]scheduler.Status{}, out: out, cleared: cleared}
	w := s.Watch()
	defer w.Stop()
	// The watcher may miss a state that lasts for a moment only. So it has to know what is there before
	// anything is removed.
	if err := s.WaitForKinds(ctx); err != nil {
		return fmt.Errorf("cleanup: %w", err)
	}
	if err := l.follow(ctx, w, func() bool { return true }); err != nil {
		return err
	}
	s.Submit(scheduler.Txn{Source: "cleanup", Note: "want nothing", Complete: true})
	if err := l.follow(ctx, w, func() bool { return len(l.left) == 0 && allRead(s) }); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, nothing is left\n", cleared.done("object"))
	for _, at := range h.store.Of("") {
		h.store.Forget(at.Key)
	}
	for _, k := range h.store.Doubted() {
		h.store.Forget(k)
	}
	return cmp.Or(h.lost.settle(), forgetLabel(c))
}

// leftovers are the objects that a cleanup has still to remove or to give back.
type leftovers struct {
	stays   map[scheduler.Key]bool
	left    map[scheduler.Key]scheduler.Status
	out     io.Writer
	cleared *Cleared
}

// follow follows statuses until it has seen all and is done.
func (l *leftovers) follow(ctx context.Context, w *scheduler.Watcher, done func() bool) error {
	for {
		changes, inSync, err := next(ctx, w)
		if err != nil {
			for _, st := range l.left {
				fmt.Fprintf(l.out, "left: %s: %s\n", st.Key, st.Reason)
			}
			return fmt.Errorf("cleanup: %d objects are left: %w", len(l.left), err)
		}
		for _, st := range changes {
			l.note(st)
		}
		l.cleared.left.Store(int64(len(l.left)))
		if inSync && done() {
			return nil
		}
	}
}

func (l *leftovers) note(st scheduler.Status) {
	_, was := l.left[st.Key]
	delete(l.left, st.Key)
	switch {
	case st.State == scheduler.Leftover || st.State == scheduler.Unknown && st.Actual != nil:
		l.left[st.Key] = st
	case was && l.stays[st.Key]:
		l.cleared.givenBack.Add(1)
		fmt.Fprintf(l.out, "gave back %s\n", st.Key)
	case was:
		l.cleared.removed.Add(1)
		fmt.Fprintf(l.out, "removed %s\n", st.Key)
	}
}

// next is the watcher's, but comes back soon: that a kind was read and nothing
// was found is no change that a watcher is told.
func next(ctx context.Context, w *scheduler.Watcher) (changes []scheduler.Status, inSync bool, err error) {
	soon, cancel := context.WithTimeout(ctx, readSoon)
	defer cancel()
	changes, inSync, err = w.Next(soon)
	if err != nil && soon.Err() != nil && ctx.Err() == nil {
		err = nil
	}
	return changes, inSync, err
}

// allRead reports whether every kind of ours has been read and nothing of it is left. The
// watcher may be behind; the list is not. The kinds are asked first: what they found
// after the list would not be in it.
func allRead(s *scheduler.Scheduler) bool {
	for _, k := range s.Kinds() {
		if k.Unread != "" || !k.Read && !k.Observed {
			return false
		}
	}
	all, err := s.List(context.Background())
	if err != nil {
		return false
	}
	for _, st := range all {
		if st.State == scheduler.Leftover || st.State == scheduler.Unknown {
			return false
		}
	}
	return true
}

// openAllNamespaces makes every namespace of the host known, so that objects
// with our mark are found even if the ledger is lost.
func openAllNamespaces(k kernel.Kernel, c Config) {
	for _, p := range namespacePaths(c) {
		_, _ = k.Open(p) // processes end; what is no namespace is refused
	}
}

// namespacePaths are the paths of the namespaces of the host: first those with names,
// which outlive their processes.
func namespacePaths(c Config) (paths []string) {
	for _, pattern := range []string{filepath.Join(c.NetnsDir, "*"), "/run/docker/netns/*", "/proc/[0-9]*/ns/net"} {
		found, _ := filepath.Glob(pattern)
		paths = append(paths, found...)
	}
	return paths
}
