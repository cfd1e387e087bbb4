package historylog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// script is a source that has some batches and then ends.
type script [][]scheduler.Record

func (s *script) Next(context.Context) ([]scheduler.Record, error) {
	if len(*s) == 0 {
		return nil, scheduler.ErrStopped
	}
	out := (*s)[0]
	*s = (*s)[1:]
	return out, nil
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func full(seq uint64) scheduler.Record {
	return scheduler.Record{Seq: seq, Time: noon, Source: "etcd", Note: "put", Written: noon.Add(-time.Second), Asked: []scheduler.Key{"a/1"}, AskedTotal: 1, Deviation: &scheduler.Deviation{Step: 1, Why: "it failed"},
		Planned: []scheduler.PlannedStep{{Op: scheduler.OpCreate, Key: "a/1"}},
		Done:    []scheduler.DoneStep{{Op: scheduler.OpCreate, Key: "a/1", Start: noon, Waited: 2, Took: 3, Error: "no\nway"}},
		Changed: []scheduler.KeyChange{{Key: "a/1", Seq: seq, Time: noon, After: scheduler.Moment{State: scheduler.Configured,
			Origin: "etcd", Desired: scheduler.Encoded(`{"x":1}`), Actual: scheduler.Encoded{0xff, '\n'}}}},
		Settled: noon.Add(time.Second)}
}

func write(t *testing.T, dir string, limit int64, batches ...[]scheduler.Record) {
	t.Helper()
	l, _, err := Open(dir, limit, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := script(batches)
	for len(s) > 0 { // without the pace of Run
		records, _ := s.Next(context.Background())
		if rest := l.writeRecords(records); len(rest) > 0 {
			t.Fatal(l.Err())
		}
	}
	if err := l.Run(context.Background(), &s); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, dir string) []scheduler.Record {
	t.Helper()
	l, records, err := Open(dir, 1<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l.file.Close()
	return records
}

// A record comes back as it was, also if it grew in between and in another run.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	first, more := full(1), scheduler.Record{Seq: 1, Time: noon, Source: "etcd", Note: "put", AskedTotal: 1,
		Done: []scheduler.DoneStep{{Op: scheduler.OpUpdate, Key: "a/2", Via: "a/1"}}, Settled: noon.Add(time.Minute), Missed: 3}
	write(t, dir, 1<<20, []scheduler.Record{first}, []scheduler.Record{more, full(2)})
	write(t, dir, 1<<20, []scheduler.Record{full(3)})
	want := first
	want.Done = append(want.Done, more.Done...)
	want.Settled, want.Missed = more.Settled, 3
	if got := load(t, dir); !reflect.DeepEqual(got, []scheduler.Record{want, full(2), full(3)}) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	info, err := os.Stat(filepath.Join(dir, format.Name))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Wherever a crash cuts the file: whole lines are read, the rest is dropped,
// and it goes on from there.
func TestCutAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 1<<20, []scheduler.Record{full(1)}, []scheduler.Record{full(2)}, []scheduler.Record{full(3)})
	text, err := os.ReadFile(filepath.Join(dir, format.Name))
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(text) + 1 {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, format.Name), text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		whole := max(0, strings.Count(string(text[:n]), "\n")-1) // without the head
		if got := load(t, dir); len(got) != whole {
			t.Fatalf("cut at %d: %d records, want %d", n, len(got), whole)
		}
		write(t, dir, 1<<20, []scheduler.Record{full(9)})
		if got := load(t, dir); len(got) != whole+1 || got[whole].Seq != 9 {
			t.Fatalf("cut at %d and gone on: %+v", n, got)
		}
	}
}

// A damaged byte costs its own line.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 1<<20, []scheduler.Record{full(1), full(2), full(3)})
	path := filepath.Join(dir, format.Name)
	text, _ := os.ReadFile(path)
	for n := bytes.IndexByte(text, '\n') + 1; n < len(text); n++ {
		bad := append([]byte(nil), text...)
		bad[n] ^= 0x20
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := load(t, dir); len(got) < 1 || len(got) > 2 {
			t.Fatalf("byte %d damaged: %d records", n, len(got))
		}
	}
}

// The files keep to their bound, and the newest records stay.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	for i := range 50 {
		write(t, dir, 4000, []scheduler.Record{full(uint64(2*i + 1))}, []scheduler.Record{full(uint64(2*i + 2))})
		size := int64(0)
		for _, name := range []string{format.Name, format.Name + ".1"} {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
				size += info.Size()
			}
		}
		if size > 4000 {
			t.Fatalf("%d bytes on disk", size)
		}
	}
	got := load(t, dir)
	if len(got) < 3 || got[len(got)-1].Seq != 100 {
		t.Errorf("%d records are left: %+v", len(got), got)
	}
	for i, r := range got {
		if want := got[0].Seq + uint64(i); r.Seq != want {
			t.Errorf("record %d has number %d, want %d", i, r.Seq, want)
		}
	}
}

// A real scheduler: an earlier run is told by the next.
func TestEarlierRun(t *testing.T) {
	dir := t.TempDir()
	for run := range uint64(3) {
		l, earlier, err := Open(dir, 1<<20, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		s := scheduler.New(scheduler.Options{Earlier: earlier})
		register(t, s)
		ctx, cancel := context.WithCancel(context.Background())
		ran, logged := make(chan error, 1), make(chan error, 1)
		follower := s.Follow()
		go func() { ran <- s.Run(ctx) }()
		go func() { logged <- l.Run(context.Background(), follower) }()
		note := fmt.Sprintf("run %d", run)
		r, err := s.Apply(ctx, scheduler.Txn{Note: note, Want: []scheduler.Change{scheduler.Set("a/1", note)}})
		if err != nil || r.Seq != run+1 {
			t.Fatalf("%+v, %v", r, err)
		}
		for seq := uint64(1); seq <= run+1; seq++ {
			checkRecord(t, s, seq, seq <= run)
		}
		cancel()
		if err := <-ran; err != nil {
			t.Fatal(err)
		}
		if err := <-logged; err != nil {
			t.Fatal(err)
		}
	}
}

func register(t *testing.T, s *scheduler.Scheduler) {
	t.Helper()
	_, err := scheduler.Register(s, scheduler.Descriptor[string, struct{}]{Name: "a", Prefix: "a/",
		Create: func(context.Context, scheduler.Key, string) (v struct{}, err error) { return v, nil },
		Delete: func(context.Context, scheduler.Key, string, struct{}) error { return nil },
		Encode: func(v string) ([]byte, error) { return []byte(v), nil },
		Decode: func(b []byte) (string, error) { return string(b), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkRecord(t *testing.T, s *scheduler.Scheduler, seq uint64, earlier bool) {
	t.Helper()
	all := s.History(scheduler.HistoryQuery{Seq: seq})
	if len(all) != 1 || all[0].Earlier != earlier || len(all[0].Done) != 1 {
		t.Fatalf("transaction %d: %+v", seq, all)
	}
	var last scheduler.Moment
	for _, c := range all[0].Changed {
		if c.After.Actual != nil {
			last = c.After
		}
	}
	if want := fmt.Sprintf("run %d", seq-1); all[0].Note != want || last.Actual != want {
		t.Errorf("transaction %d: %q, changed %+v", seq, all[0].Note, all[0].Changed)
	}
}

// Files of the first version have no head, and the checksum that zip has.
func TestFirstVersion(t *testing.T) {
	dir := t.TempDir()
	body := `{"seq":7,"time":"2026-01-02T12:00:00Z","source":"etcd"}`
	text := fmt.Sprintf("%08x %s\n", crc32.ChecksumIEEE([]byte(body)), body)
	if err := os.WriteFile(filepath.Join(dir, "history"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, dir, 1<<20, []scheduler.Record{full(8)})
	if got := load(t, dir); len(got) != 2 || got[0].Seq != 7 || got[0].Source != "etcd" || got[1].Seq != 8 {
		t.Errorf("%+v", got)
	}
}

// large is a record of so many steps.
func large(seq uint64, steps int) scheduler.Record {
	r := full(seq)
	for i := range steps {
		k := scheduler.Key(fmt.Sprintf("a/%06d", i))
		r.Asked = append(r.Asked, k)
		r.Planned = append(r.Planned, scheduler.PlannedStep{Op: scheduler.OpCreate, Key: k})
		r.Done = append(r.Done, scheduler.DoneStep{Op: scheduler.OpCreate, Key: k, Start: noon})
		r.Changed = append(r.Changed, scheduler.KeyChange{Key: k, Seq: seq, Time: noon, After: scheduler.Moment{State: scheduler.Configured}})
	}
	return r
}

// A record that is larger than a file is kept in parts, and of one that is larger than
// all that is kept the last of them.
func TestLargeRecords(t *testing.T) {
	const limit = 64 << 10
	dir := t.TempDir()
	whole := large(1, 250)
	text, err := json.Marshal(lineOf(whole))
	if err != nil || len(text) < limit/2 || len(text) > limit {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	write(t, dir, limit, []scheduler.Record{whole})
	if got := load(t, dir); !reflect.DeepEqual(got, []scheduler.Record{whole}) {
		t.Errorf("it came back otherwise: %d records", len(got))
	}
	dir = t.TempDir()
	write(t, dir, limit, []scheduler.Record{large(1, 1000)}, []scheduler.Record{full(2)})
	got := load(t, dir)
	if len(got) != 2 || got[0].Note != "put" || len(got[0].Changed) == 0 || got[0].Changed[len(got[0].Changed)-1].Key != "a/000999" {
		t.Errorf("%d records", len(got))
	}
}
