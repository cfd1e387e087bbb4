package private

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Known says by what a directory of ours is recognized.
type Known struct {
	// Files are the names of regular files that only we make.
	Files []string
	// More are names of files and sockets that may be there besides, too common to
	// tell a directory of ours by one of them; Dirs are those of directories.
	More, Dirs []string
}

// Check reports why the directory cannot be ours. It changes nothing. One that is
// not there can be made; one that is there must belong to root, be closed to the
// writes of others, and be empty or hold what we know.
func Check(dir string, k Known) error {
	info, err := checkWay(dir)
	if err != nil || info == nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no directory", dir)
	}
	if writable(info) {
		return fmt.Errorf("others may write to %s (mode %04o): name a directory for plumb-agent alone, or close this one with chmod go-w", dir, info.Mode().Perm())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if ours(entries, k) {
		return nil
	}
	return fmt.Errorf("%s holds things that are not ours, such as %s: name an empty directory, or one that is not there yet, for plumb-agent alone",
		dir, stranger(entries, k))
}

// ours reports whether a directory with these entries was made for us.
func ours(entries []fs.DirEntry, k Known) bool {
	if stranger(entries, k) == "" {
		return true
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		info, err := e.Info()
		return err == nil && info.Mode().IsRegular() && trusted(owner(info)) && slices.Contains(k.Files, e.Name())
	})
}

// stranger is an entry that we do not know, "" if there is none.
func stranger(entries []fs.DirEntry, k Known) string {
	for _, e := range entries {
		known := slices.Contains(k.Files, e.Name()) || slices.Contains(k.More, e.Name())
		if e.IsDir() {
			known = slices.Contains(k.Dirs, e.Name())
		}
		if !known {
			return e.Name()
		}
	}
	return ""
}

// Make makes the directory, for root alone, if it is not there. One that is there
// keeps its mode; it must be safe from others.
func Make(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	info, err := checkWay(dir)
	if err != nil {
		return err
	}
	if info == nil {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		info, err = checkWay(dir) // somebody may have been quicker
	}
	switch {
	case err != nil:
		return err
	case info == nil || !info.IsDir():
		return fmt.Errorf("%s is no directory", dir)
	case writable(info):
		return fmt.Errorf("others may write to %s (mode %04o); close it with chmod go-w, or name another directory", dir, info.Mode().Perm())
	}
	return nil
}
