// Package keyfiles follows files that may not exist yet.
package keyfiles

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/plumb-net/plumb/plugins/inotify"
)

// pollEach is how often files are looked at without a hint: a symbolic link can lead to a directory that is
// not watched.
const pollEach = 30 * time.Second

// Follow calls changed for each file once when files returns it, and when it appears, changes or disappears,
// until ctx ends. more receives a value when files returns others. Directories that do not exist are
// waited for. The error is that of inotify.
func Follow(ctx context.Context, files func() []string, more <-chan struct{}, changed func(file string)) error {
	w, err := inotify.New()
	if err != nil {
		return err
	}
	defer w.Close()
	f := follower{w: w, seen: map[string]string{}, changed: changed}
	poll := time.NewTicker(pollEach)
	defer poll.Stop()
	for {
		f.look(files())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		case <-poll.C:
		case <-w.Hints():
		}
	}
}

type follower struct {
	w       *inotify.Watcher
	seen    map[string]string // files as they were looked at last
	changed func(file string)
}

// look watches the directories and compares the files with how they were.
func (f *follower) look(files []string) {
	dirs, seen := make([]string, 0, len(files)), make(map[string]string, len(files))
	for _, file := range files {
		dirs = append(dirs, f.watch(filepath.Dir(file)))
	}
	f.w.Keep(dirs)
	for _, file := range files { // after the directories, so that nothing is missed in between
		now := state(file)
		if was, known := f.seen[file]; !known || was != now { // it may have changed before it was followed
			f.changed(file)
		}
		seen[file] = now
	}
	f.seen = seen
}

// watch watches a directory, or the nearest one above that exists. It returns which.
func (f *follower) watch(dir string) string {
	for last := ""; ; {
		at := dir
		for f.w.Add(at) != nil && at != "/" {
			at = filepath.Dir(at)
		}
		if at == dir || at == last {
			return at
		}
		last = at // once more: the next directory may have been made before this one was watched
	}
}

// state is how a file is, as far as can be told without reading it.
func state(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return "none"
	}
	s, _ := info.Sys().(*syscall.Stat_t)
	return fmt.Sprint(s.Dev, s.Ino, s.Size, s.Ctim, s.Mode)
}
