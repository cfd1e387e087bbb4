package events

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/linefile"
)

var silent = slog.New(slog.DiscardHandler)

// full is an event with everything in it.
func full() container.Event {
	return container.Event{
		Type: container.OOM, At: noon, Seen: noon.Add(time.Second), Runtime: "docker", ID: "abc", Name: "web", Image: "shop:1",
		Labels: map[string]string{"a": "b"}, Microservice: "web", State: "running",
		Run:     container.Run{StartedAt: noon, Pid: 7, Netns: 8},
		Exit:    &container.Exit{Code: -1, Signal: 9, Reason: container.OutOfMemory, StartedAt: noon, FinishedAt: noon},
		OOM:     &container.OOMKill{At: noon, Container: "abc", Cgroup: "/a", Owner: "o", OwnerCgroup: "/o", Pid: 9, Process: "a\nb\xff", Constraint: "C", Source: "kmsg", Count: 2, Amends: true, All: true},
		OldName: "old", OldImage: "shop:0", Amends: true, FoundLater: true, Detail: "more",
	}
}

// session opens the events of a directory, adds some, and ends in good order
// or by a crash.
func session(t *testing.T, dir string, crash bool, add ...container.Event) []*Event {
	t.Helper()
	f, earlier, next, err := Open(dir, 1<<20, silent)
	if err != nil {
		t.Fatal(err)
	}
	l := New(Limits{}, earlier, next)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	after := l.Stats().Next - 1
	go func() { done <- f.Run(ctx, l, after) }()
	for _, e := range add {
		l.Add(e)
	}
	if crash {
		time.Sleep(time.Second)
		copyDir(t, dir, dir+".crash")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if crash {
		copyDir(t, dir+".crash", dir)
	}
	all, _ := l.Query(Query{})
	return all
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	_ = os.RemoveAll(to)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// TestRestart: what was kept is there in the next run, and the numbers go
// on; after a crash some are left out, so that none is given twice.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		session(t, dir, false, some(0), some(1))
		session(t, dir, true, some(2))
		all := session(t, dir, false, full())
		if got := seqs(all); !slices.Equal(got, []uint64{1, 2, 3, 4 + skipped}) {
			t.Fatalf("%v", got)
		}
		all = session(t, dir, false)
		for i, want := range []container.Event{some(0), some(1), some(2), full()} {
			want.OOM = all[i].OOM // its name is no plain text
			if !all[i].Earlier || !reflect.DeepEqual(all[i].Event, want) {
				t.Errorf("got  %+v\nwant %+v", all[i].Event, want)
			}
		}
		if o := *all[3].OOM; o.Pid != 9 || !o.At.Equal(noon) || o.OwnerCgroup != "/o" || !strings.HasPrefix(o.Process, "a\nb") {
			t.Errorf("%+v", o)
		}
	})
}

// TestResumeAcrossRestart: a place of an earlier run is gone on from; what
// may be missing because of a crash is told.
func TestResumeAcrossRestart(t *testing.T) {
	event := func(seq uint64) *Event {
		e := &Event{Seq: seq, Event: some(int(seq))}
		e.Seen = time.Now()
		return e
	}
	clean := New(Limits{}, []*Event{event(5), event(6)}, 7)
	clean.Add(some(7))
	expect(t, watch(t, clean, Query{}, 5), "", 6, 7)
	expect(t, watch(t, clean, Query{}, 3), "gap 4–4", 5, 6, 7)
	expect(t, watch(t, clean, Query{}, 8), "foreign gap 9–4", 5, 6, 7)
	crashed := New(Limits{}, []*Event{event(5), event(6)}, 7+skipped)
	crashed.Add(some(7))
	expect(t, watch(t, crashed, Query{}, 5), "gap 6–10006", 6, 7+skipped)
	expect(t, watch(t, crashed, Query{}, 7+skipped), "")
	expect(t, watch(t, New(Limits{}, nil, 0), Query{}, 0), "")
}

// TestDamage: wherever the file is cut, and whichever byte is damaged: it
// is read as far as it is whole, the numbers never go back, and later events
// are kept.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 3)
	path := filepath.Join(dir, "events")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, earlier, next := load(t, dir)
		for i, e := range earlier {
			if e.Seq >= next || i > 0 && e.Seq <= earlier[i-1].Seq {
				t.Fatalf("%s: %v, then %d", what, seqs(earlier), next)
			}
		}
	}
	for n := range text {
		check(fmt.Sprint("cut at ", n), text[:n])
		bad := slices.Clone(text)
		bad[n] ^= 0x20
		check(fmt.Sprint("damaged at ", n), bad)
	}
}

// write writes n events without a log.
func write(t testing.TB, dir string, n int) {
	t.Helper()
	f, _, next := load(t, dir)
	for i := range n {
		f.write(linesOf([]*Event{{Seq: next + uint64(i), Event: some(i)}}))
	}
	if f.Err() != nil {
		t.Fatal(f.Err())
	}
}

func load(t testing.TB, dir string) (*File, []*Event, uint64) {
	t.Helper()
	f, earlier, next, err := Open(dir, 1<<20, silent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.file.Close() })
	return f, earlier, next
}

// TestUnknown: a type that this program does not know is an event all the
// same; a line that says something else is passed over; a file of a later
// version is put aside.
func TestUnknown(t *testing.T) {
	dir := t.TempDir()
	f, _, _ := load(t, dir)
	for _, line := range []string{`{"seq":4,"type":"thawed","id":"x","new":{"a":1}}`, `{"mark":true}`, `nonsense`, `{"seq":5,"type":"died","exit":{"code":1}}`} {
		if _, err := f.file.Append([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	_, earlier, next := load(t, dir)
	if got := fmt.Sprint(seqs(earlier), next); got != fmt.Sprint("[4 5] ", 6+skipped) || earlier[0].Type != "thawed" {
		t.Errorf("%s: %+v", got, earlier)
	}
	later, _, _, err := linefile.Open(t.TempDir(), linefile.Format{Name: "events", Version: 2}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
}

// Everything that can be known of an event is written.
func TestRecordIsComplete(t *testing.T) {
	line, err := encode(&Event{Seq: 1, Event: full()})
	if err != nil {
		t.Fatal(err)
	}
	r, ok := decode(line)
	if !ok {
		t.Fatal(string(line))
	}
	got := reflect.ValueOf(r.event().Event)
	for i := range got.NumField() {
		if got.Field(i).IsZero() {
			t.Errorf("%s is lost", got.Type().Field(i).Name)
		}
	}
	for _, v := range []any{*r.event().Exit, *r.event().OOM, r.event().Run} {
		s := reflect.ValueOf(v)
		for i := range s.NumField() {
			if s.Field(i).IsZero() {
				t.Errorf("%s is lost", s.Type().Field(i).Name)
			}
		}
	}
}
