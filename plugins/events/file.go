package events

import (
	"context"
	"encoding/json"
	"log/slog"
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
	return &File{file, log}, earlier, next, nil
}

// Run writes what a log has from a number on until ctx ends, then what there
// is by then, and closes the file. A slow disk makes it miss events, as it
// would any other watcher.
func (f *File) Run(ctx context.Context, l *Log, after uint64) error {
	w, err := l.Watch(Query{}, after)
	if err != nil {
		return err
	}
	defer w.Stop()
	failing := false
	for ctx.Err() == nil {
		if found, _, err := w.Next(ctx); err == nil {
			f.write(found, &failing)
			f.drain(w, &failing)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pace):
		}
	}
	f.drain(w, &failing)
	if !failing {
		end, err := json.Marshal(record{End: w.at})
		if err == nil && w.at > 0 {
			_ = f.file.Append(end) // without it some numbers are left out
		}
	}
	return f.file.Close()
}

// drain writes all that there is now.
func (f *File) drain(w *Watcher, failing *bool) {
	for {
		found, gap := w.take()
		if len(found) == 0 && gap == nil {
			return
		}
		f.write(found, failing)
	}
}

// write appends events; what fails is told once and lost.
func (f *File) write(found []*Event, failing *bool) {
	lines := make([][]byte, 0, len(found))
	for _, e := range found {
		if line, err := encode(e); err == nil {
			lines = append(lines, line)
		}
	}
	err := f.file.Append(lines...)
	if err != nil && !*failing {
		f.log.Warn("the events cannot be written", "error", err)
	}
	*failing = err != nil
}
