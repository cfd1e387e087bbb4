// Package keyfiles follows files that may not exist yet.
package keyfiles

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// pollEach is how often files are looked at without a hint: a symbolic link can lead to a directory that is
// not watched.
const pollEach = 30 * time.Second

// Follow calls changed for each file that appears, changes or disappears, until ctx ends. files returns those to
// follow, and more receives a value when it returns others. Directories that do not exist are waited
// for. It may call changed once too often. The error is that of inotify.
func Follow(ctx context.Context, files func() []string, more <-chan struct{}, changed func(file string)) error {
	w, err := fsnotify.NewWatcher()
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
		case _, open := <-w.Events:
			if !open {
				return fsnotify.ErrClosed
			}
		case _, open := <-w.Errors: // events were lost
			if !open {
				return fsnotify.ErrClosed
			}
		}
	}
}

type follower struct {
	w       *fsnotify.Watcher
	seen    map[string]string // files as they were looked at last
	changed func(file string)
}

// look watches the directories and compares the files with how they were.
func (f *follower) look(files []string) {
	dirs, seen := map[string]bool{}, make(map[string]string, len(files))
	for _, file := range files {
		dirs[f.watch(filepath.Dir(file))] = true
	}
	for _, dir := range f.w.WatchList() {
		if !dirs[dir] {
			_ = f.w.Remove(dir)
		}
	}
	for _, file := range files { // after the directories, so that nothing is missed in between
		now := state(file)
		if was, known := f.seen[file]; !known || was != now { // a new one may have changed since it was checked
			f.changed(file)
		}
		seen[file] = now
	}
	f.seen = seen
}

// watch watches a directory, or the nearest one above that exists. It returns which.
func (f *follower) watch(dir string) string {
	for ; ; dir = filepath.Dir(dir) {
		if f.w.Add(dir) == nil || dir == "/" {
			return dir
		}
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
