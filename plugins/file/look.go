package file

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// same tells whether two looks found the same.
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
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, touched, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, touched, err
	}
	touched = info.ModTime()
	found = map[string]content{}
	for _, e := range entries {
		if !isIntent(e.Name()) {
			continue
		}
		data, changed, err := read(filepath.Join(dir, e.Name()))
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

func read(path string) (data []byte, changed time.Time, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, changed, err
	case info.IsDir():
		return nil, changed, errDirectory
	case !info.Mode().IsRegular(): // opening a pipe would wait for its writer
		return nil, changed, fmt.Errorf("%s is no regular file", path)
	}
	tooLarge := fmt.Errorf("%s is larger than %d MiB; split it", path, maxFile>>20)
	if info.Size() > maxFile {
		return nil, changed, tooLarge
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, changed, err
	}
	defer f.Close()
	data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = tooLarge // it grew meanwhile
	}
	if err != nil {
		return nil, changed, err
	}
	return data, info.ModTime(), nil
}
