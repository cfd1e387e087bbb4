package file

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxFile bounds an intent file in bytes.
const maxFile = 64 << 20

// content is what a look found of one file; err says why it could not be read.
type content struct {
	data []byte
	sum  [sha256.Size]byte
	err  error
}

// same reports whether two looks found the same.
func (c content) same(d content) bool {
	if c.err != nil || d.err != nil {
		return c.err != nil && d.err != nil && c.err.Error() == d.err.Error()
	}
	return c.sum == d.sum
}

// look reads all intent files of a directory by name, and says when somebody
// last touched one of them or the directory. An error means that nothing is
// known, not that there are none.
func look(dir string) (found map[string]content, touched time.Time, err error) {
	root, err := os.OpenRoot(dir) // nothing is read over a link that leads out of it
	if err != nil {
		return nil, touched, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, touched, err
	}
	info, err := root.Stat(".")
	if err != nil {
		return nil, touched, err
	}
	touched = info.ModTime()
	found = map[string]content{}
	for _, e := range entries {
		if !isIntent(e.Name()) {
			continue
		}
		data, changed, err := read(root, e.Name())
		if errors.Is(err, errDirectory) {
			continue
		}
		found[e.Name()] = content{data: data, sum: sha256.Sum256(data), err: err}
		if changed.After(touched) {
			touched = changed
		}
	}
	return found, touched, nil
}

// isIntent passes over what editors and others leave: hidden files, backups.
func isIntent(name string) bool {
	ext := filepath.Ext(name)
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, ext)
}

// errDirectory marks directories, which are not descended into.
var errDirectory = errors.New("is a directory")

// read reads a file of the directory. A symbolic link within the directory is
// followed, as Kubernetes uses them. What is no file is not opened, and if it becomes
// none meanwhile, opening it waits for nobody.
func read(root *os.Root, name string) (data []byte, changed time.Time, err error) {
	path := filepath.Join(root.Name(), name)
	info, err := root.Stat(name)
	if err == nil {
		err = checkFile(path, info)
	}
	if err != nil {
		return nil, changed, explain(path, err)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, changed, explain(path, err)
	}
	defer f.Close()
	if info, err = f.Stat(); err == nil {
		err = checkFile(path, info)
	}
	if err != nil {
		return nil, changed, err
	}
	data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = tooLarge(path) // it grew meanwhile
	}
	if err != nil {
		return nil, changed, err
	}
	return data, info.ModTime(), nil
}

// checkFile refuses what is no regular file, and what is too large.
func checkFile(path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return errDirectory
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", path)
	case info.Size() > maxFile:
		return tooLarge(path)
	}
	return nil
}

func tooLarge(path string) error {
	return fmt.Errorf("%s is larger than %d MiB; split it", path, maxFile>>20)
}

// explain names the whole path, and says of a link that leads out of the directory
// what to do.
func explain(path string, err error) error {
	var of *fs.PathError
	if !errors.As(err, &of) {
		return err
	}
	if of.Err.Error() == "path escapes from parent" { // which os does not export
		return fmt.Errorf("%s is a symbolic link that leads out of the directory; only what is in it is read: put the file itself there", path)
	}
	return fmt.Errorf("%s: %w", path, of.Err)
}
