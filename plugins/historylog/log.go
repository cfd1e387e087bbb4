package historylog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
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
	return &Log{log, file}, merge(lines), nil
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
			return l.file.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pace):
		}
	}
}

// write appends records, all or none.
func (l *Log) write(records []scheduler.Record) error {
	lines := make([][]byte, 0, len(records))
	for _, r := range records {
		text, err := json.Marshal(lineOf(r))
		if err != nil {
			return err
		}
		lines = append(lines, text)
	}
	return l.file.Append(lines...)
}
