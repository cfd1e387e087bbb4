package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links a path may lead over, as in the kernel.
const maxLinks = 40

// checkWay looks at every directory on the way to the path and at the path itself,
// as far as they are there: whoever else owns one of them, or may rename in it,
// could put another thing in the place of ours. It returns how the last one is, nil
// if it is not there.
func checkWay(path string) (last fs.FileInfo, err error) {
	w := way{at: "/", rest: strings.Split(filepath.Clean(path), "/")[1:]}
	if err := w.look(); err != nil {
		return nil, err
	}
	for len(w.rest) > 0 && w.info != nil {
		if err := w.step(); err != nil {
			return nil, err
		}
	}
	if len(w.rest) > 0 {
		return nil, nil
	}
	return w.info, nil
}

// way is a path that is walked name by name.
type way struct {
	at    string
	info  fs.FileInfo // of at; nil if it is not there
	rest  []string
	links int
}

func (w *way) step() error {
	name := w.rest[0]
	w.rest = w.rest[1:]
	if name == "" {
		return nil
	}
	if !w.info.IsDir() {
		return fmt.Errorf("%s is no directory", w.at)
	}
	if err := checkRenames(w.at, w.info); err != nil {
		return err
	}
	parent := w.at
	w.at = filepath.Join(w.at, name)
	if err := w.look(); err != nil || w.info == nil || w.info.Mode().Type() != fs.ModeSymlink {
		return err
	}
	to, err := os.Readlink(w.at)
	if err != nil {
		return err
	}
	if w.links++; w.links > maxLinks {
		return fmt.Errorf("%s leads over too many symbolic links", w.at)
	}
	w.at = parent
	if filepath.IsAbs(to) {
		w.at = "/"
	}
	w.rest = append(strings.Split(to, "/"), w.rest...)
	w.info, err = os.Lstat(w.at)
	return err
}

// look reads what is there and checks whose it is.
func (w *way) look() (err error) {
	w.info, err = os.Lstat(w.at)
	if errors.Is(err, fs.ErrNotExist) {
		w.info = nil
		return nil
	}
	if err != nil {
		return err
	}
	if uid := owner(w.info); !trusted(uid) {
		return fmt.Errorf("%s belongs to user %d, who could put anything in its place; name a directory whose path belongs to root alone", w.at, uid)
	}
	return nil
}

// checkRenames refuses a directory in which others may rename what is not theirs.
func checkRenames(dir string, info fs.FileInfo) error {
	if writable(info) && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("others may write to %s (mode %04o) and could put anything in the place of what is in it; name a directory elsewhere, or close it with chmod go-w",
			dir, info.Mode().Perm())
	}
	return nil
}

// writable reports whether others than the owner and root's group may write.
func writable(info fs.FileInfo) bool {
	st, _ := info.Sys().(*syscall.Stat_t)
	return info.Mode().Perm()&0o002 != 0 || info.Mode().Perm()&0o020 != 0 && (st == nil || st.Gid != 0)
}

func owner(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// trusted reports whether what the user owns may be used: root's and our own.
func trusted(uid int) bool { return uid == 0 || uid == os.Geteuid() }
