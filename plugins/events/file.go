package events

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/plumb-net/plumb/plugins/linefile"
)

var format = linefile.Format{Name: "events", Version: 1}

const (
	// pace is how often what is new is written.
	pace = 200 * time.Millisecond
	// skipped is how many numbers are left out after a run that did not end in
	// good order: more than it may have given and not written.
	skipped = 10_000
)

// File is events on disk.
type File struct {
	file *linefile.File
	log  *slog.Logger
	// failing is why the disk does not take what is new; nil if it does.
	failing atomic.Pointer[error]
}

// Err is why the events are in memory only, nil if they are on disk.
func (f *File) Err() error {
	if err := f.failing.Load(); err != nil {
		return *err
	}
	return nil
}

// Open reads the events of earlier runs in a directory, oldest first, and says
// with which number to go on. At most limit bytes are kept on disk. Damage is
// left out and never an error.
func Open(dir string, limit int64, log *slog.Logger) (f *File, earlier []*Event, next uint64, err error) {
	file, lines, aside, err := linefile.Open(dir, format, limit)
	if err != nil {
		return nil, nil, 0, err
	}
	if len(aside) > 0 {
		log.Warn("the events are of another version; they were put aside and new ones are begun", "files", aside)
	}
	var last, ended uint64
	for _, text := range lines {
		r, ok := decode(text)
		switch {
		case !ok:
		case r.End > 0:
			ended = r.End
		default:
			earlier = append(earlier, r.event())
			last = max(last, r.Seq)
		}
	}
	switch {
	case ended >= last:
		next = ended + 1
	default:
		next = last + 1 + skipped
	}
	return &File{file: file, log: log}, earlier, next, nil
}

// Run writes what a log has from a number on until ctx ends, then what there
// is by then, and closes the file. A slow disk makes it miss events, as it
// would any other watcher. While the disk takes none, the events stay where
// they are, in memory, and are written when it does.
func (f *File) Run(ctx context.Context, l *Log, after uint64) error {
	w, err := l.Watch(Query{}, after)
	if err != nil {
		return err
	}
	defer w.Stop()
	var rest [][]byte // what is read and not yet written
	for ctx.Err() == nil {
		if len(rest) == 0 {
			if found, _, err := w.Next(ctx); err == nil {
				rest = linesOf(found)
			}
		}
		rest = f.drain(w, rest)
		select {
		case <-ctx.Done():
		case <-time.After(pace):
		}
	}
	if rest = f.drain(w, rest); len(rest) == 0 {
		end, err := json.Marshal(record{End: w.at})
		if err == nil && w.at > 0 {
			_, _ = f.file.Append(end) // without it some numbers are left out
		}
	}
	return f.file.Close()
}

// drain writes what was read, and then all that there is now. It returns what
// the disk does not take.
func (f *File) drain(w *Watcher, rest [][]byte) [][]byte {
	for {
		if rest = f.write(rest); len(rest) > 0 {
			return rest
		}
		found, gap := w.take()
		if len(found) == 0 && gap == nil {
			return nil
		}
		rest = linesOf(found)
	}
}

// linesOf makes the lines of events.
func linesOf(found []*Event) (lines [][]byte) {
	for _, e := range found {
		if line, err := encode(e); err == nil {
			lines = append(lines, line)
		}
	}
	return lines
}

// write appends lines and returns those that the disk does not take. That it
// takes none, and that it does again, is told once.
func (f *File) write(lines [][]byte) (rest [][]byte) {
	if len(lines) == 0 {
		return nil
	}
	done, err := f.file.Append(lines...)
	var large *linefile.TooLargeError
	if errors.As(err, &large) {
		f.log.Warn("events are too large to be written", "error", err)
		err = nil
	}
	switch was := f.Err(); {
	case err != nil && was == nil:
		f.log.Warn("the events cannot be written; they are kept in memory until they can", "error", err)
		f.failing.Store(&err)
	case err == nil && was != nil:
		f.log.Info("the events are written again")
		f.failing.Store(nil)
	}
	return lines[done:]
}
