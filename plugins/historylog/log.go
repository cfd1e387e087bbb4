package historylog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

const (
	fileName = "history"
	oldName  = "history.1"
	// pace is how often what is new is written.
	pace = 200 * time.Millisecond
)

// Source is the history to keep; see [scheduler.Follower].
type Source interface {
	Next(ctx context.Context) ([]scheduler.Record, error)
}

// Log is a history on disk.
type Log struct {
	dir  string
	max  int64 // bytes of both files
	log  *slog.Logger
	file *os.File
	size int64
}

// Open reads the history of earlier runs in a directory, oldest first, and
// makes ready to go on. At most max bytes are kept on disk. Damage is left out
// and never an error.
func Open(dir string, limit int64, log *slog.Logger) (*Log, []scheduler.Record, error) {
	l := &Log{dir: dir, max: limit, log: log}
	old, _, err := read(l.path(oldName))
	if err != nil {
		return nil, nil, err
	}
	now, whole, err := read(l.path(fileName))
	if err != nil {
		return nil, nil, err
	}
	if l.file, err = os.OpenFile(l.path(fileName), os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
		return nil, nil, fmt.Errorf("history: %w", err)
	}
	l.size = whole
	if err := errors.Join(l.file.Truncate(whole), seekEnd(l.file)); err != nil {
		l.file.Close()
		return nil, nil, fmt.Errorf("history: %w", err)
	}
	return l, merge(append(old, now...)), nil
}

func seekEnd(f *os.File) error {
	_, err := f.Seek(0, 2)
	return err
}

func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }

// read reads the lines of a file that are whole; the last of them ends at whole.
func read(path string) (lines []line, whole int64, err error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("history: %w", err)
	}
	for at := 0; ; {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			return lines, whole, nil
		}
		if l, ok := parse(text[at : at+n]); ok {
			lines = append(lines, l)
		}
		at += n + 1
		whole = int64(at)
	}
}

// merge puts lines together to records. What is left of a record that began
// before the file does is dropped.
func merge(lines []line) []scheduler.Record {
	bySeq := map[uint64]*scheduler.Record{}
	for _, l := range lines {
		if bySeq[l.Seq] == nil {
			bySeq[l.Seq] = &scheduler.Record{}
		}
		l.addTo(bySeq[l.Seq])
	}
	out := make([]scheduler.Record, 0, len(bySeq))
	for _, r := range bySeq {
		if r.Seq != 0 {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b scheduler.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

// Run writes what a source has until it ends, then closes the file. When ctx
// ends it writes what there is by then.
func (l *Log) Run(ctx context.Context, s Source) error {
	defer l.file.Close()
	failing := false
	for {
		records, err := s.Next(ctx)
		if len(records) > 0 {
			err := l.write(records)
			if err != nil && !failing {
				l.log.Warn("the history cannot be written", "error", err)
			}
			failing = err != nil
		}
		if errors.Is(err, scheduler.ErrStopped) || ctx.Err() != nil && len(records) == 0 {
			return l.file.Sync()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pace):
		}
	}
}

// write appends records. A line that fails is cut off again.
func (l *Log) write(records []scheduler.Record) error {
	var text []byte
	for _, r := range records {
		one, err := lineOf(r).text()
		if err != nil {
			return err
		}
		text = append(text, one...)
	}
	if l.size > 0 && l.size+int64(len(text)) > l.max/2 {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	if int64(len(text)) > l.max/2 {
		return fmt.Errorf("%d bytes at once do not fit", len(text))
	}
	n, err := l.file.WriteAt(text, l.size)
	if err != nil {
		return errors.Join(err, l.file.Truncate(l.size))
	}
	l.size += int64(n)
	return nil
}

// rotate begins a new file.
func (l *Log) rotate() error {
	if err := os.Rename(l.path(fileName), l.path(oldName)); err != nil {
		return err
	}
	file, err := os.OpenFile(l.path(fileName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	l.file.Close()
	l.file, l.size = file, 0
	return nil
}
