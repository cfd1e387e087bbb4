package historylog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/plumb-net/plumb/plugins/linefile"
	"github.com/plumb-net/plumb/scheduler"
)

// pace is how often what is new is written.
const pace = 200 * time.Millisecond

// format of the files. Those of the first version do not name it.
var format = linefile.Format{Name: "history", Version: 1, Bare: true}

// Source is the history to keep; see [scheduler.Follower].
type Source interface {
	Next(ctx context.Context) ([]scheduler.Record, error)
}

// Log is a history on disk.
type Log struct {
	log  *slog.Logger
	file *linefile.File
	// most is how many bytes a line should have; records that are larger are cut.
	most int
	// text has the lines of the last records; it is of Run alone.
	text []byte
	// failing is why the disk does not take what is new; nil if it does.
	failing atomic.Pointer[error]
}

// Err is why the history is in memory only, nil if it is on disk.
func (l *Log) Err() error {
	if err := l.failing.Load(); err != nil {
		return *err
	}
	return nil
}

// Open reads the history of earlier runs in a directory, oldest first, and
// makes ready to go on. At most max bytes are kept on disk. Damage is left out
// and never an error.
func Open(dir string, limit int64, log *slog.Logger) (*Log, []scheduler.Record, error) {
	file, records, aside, err := linefile.Open(dir, format, limit)
	if err != nil {
		return nil, nil, err
	}
	if len(aside) > 0 {
		log.Warn("the history is of another version; it was put aside and a new one is begun", "files", aside)
	}
	var lines []line
	for _, text := range records {
		var l line
		if json.Unmarshal(text, &l) == nil && l.Seq > 0 {
			lines = append(lines, l)
		}
	}
	return &Log{log: log, file: file, most: int(limit / 8)}, merge(lines), nil
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
// ends it writes what there is by then. While the disk takes nothing, the source
// keeps the history, and what is new is written when the disk does.
func (l *Log) Run(ctx context.Context, s Source) error {
	var rest [][]byte // what was read and is not yet written
	for {
		var records []scheduler.Record
		var err error
		if rest = l.write(rest); len(rest) == 0 {
			records, err = s.Next(ctx)
			rest = l.writeRecords(records)
		}
		if errors.Is(err, scheduler.ErrStopped) || ctx.Err() != nil && len(records) == 0 {
			return l.file.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pace):
		}
	}
}

// writeRecords writes records in portions, and returns the lines that the disk does not take.
func (l *Log) writeRecords(records []scheduler.Record) (rest [][]byte) {
	for len(records) > 0 {
		if len(rest) > 0 {
			l.text = nil // what is left lies in it
		}
		lines := [][]byte(nil)
		for l.text = l.text[:0]; len(records) > 0 && len(l.text) < portion; records = records[1:] {
			l.text, lines = lineOf(records[0]).cut(l.most, l.text, lines)
		}
		if len(rest) == 0 {
			lines = l.write(lines)
		}
		rest = append(rest, lines...)
	}
	return rest
}

// portion is about how much is written at once, in bytes.
const portion = 256 << 10

// write appends lines and returns those that the disk does not take. That it
// takes none, and that it does again, is told once.
func (l *Log) write(lines [][]byte) (rest [][]byte) {
	if len(lines) == 0 {
		return nil
	}
	done, err := l.file.Append(lines...)
	var large *linefile.TooLargeError
	if errors.As(err, &large) {
		l.log.Warn("single changes are too large for the history on disk, and in memory only", "error", err)
		err = nil
	}
	switch was := l.Err(); {
	case err != nil && was == nil:
		l.log.Warn("the history cannot be written; it is kept in memory until it can", "error", err)
		l.failing.Store(&err)
	case err == nil && was != nil:
		l.log.Info("the history is written again")
		l.failing.Store(nil)
	}
	return lines[done:]
}
