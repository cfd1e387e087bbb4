package historylog

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// story is a log.
type story struct {
	mu   sync.Mutex // guards what follows
	text strings.Builder
}

func (s *story) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *story) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// counted is a source that counts how often it is asked.
type counted struct {
	script
	asked atomic.Int32
}

func (s *counted) Next(ctx context.Context) ([]scheduler.Record, error) {
	s.asked.Add(1)
	return s.script.Next(ctx)
}

// A disk that takes nothing for a while: what was read is written when it does,
// that is said once, and the source is not read further meanwhile. The first batch is of
// several portions.
func TestADiskThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var log story
		l, _, err := Open(filepath.Join(dir, "none"), 8<<20, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		const many = 2000
		var first []scheduler.Record
		for seq := range uint64(many) {
			first = append(first, full(seq+1))
		}
		s := counted{script: script{first, {full(many + 1)}}}
		done := make(chan error)
		go func() { done <- l.Run(context.Background(), &s) }()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s.asked.Load() != 1 || l.Err() == nil || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("asked for %d batches, error %v, log\n%s", s.asked.Load(), l.Err(), log.String())
		}
		if err := os.Mkdir(filepath.Join(dir, "none"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil || l.Err() != nil {
			t.Errorf("%v, %v", err, l.Err())
		}
		got := load(t, filepath.Join(dir, "none"))
		if len(got) != many+1 {
			t.Errorf("%d records", len(got))
		}
		for i, r := range got {
			want := full(uint64(i + 1))
			if r.Seq != want.Seq || len(r.Changed) != len(want.Changed) || len(r.Done) != len(want.Done) {
				t.Fatalf("record %d: %+v", i+1, r)
			}
		}
	})
}

// FuzzLine: whatever a line holds, it is more of a record or is passed over, and
// what is a record can be written.
func FuzzLine(f *testing.F) {
	whole, err := json.Marshal(lineOf(full(1)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, whole)
	f.Add([]byte(`{"seq":7,"time":"2026-01-02T03:04:05Z"}`), []byte(`{"seq":7,"done":[{"op":9}],"changed":[{"before":{"state":99}}]}`))
	f.Add([]byte(`{"seq":1,"missed":-5,"dropped":3}`), []byte(`{"seq":1,"deviation":{}}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var lines []line
		for _, text := range [][]byte{first, second} {
			var l line
			if json.Unmarshal(text, &l) == nil && l.Seq > 0 {
				lines = append(lines, l)
			}
		}
		for _, r := range merge(lines) {
			_, _ = lineOf(r).cut(1<<10, nil, nil)
		}
	})
}
