package events

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/plumb-net/plumb/plugins/container"
)

// One container with huge texts pushes nobody out of memory or the file, and what
// is cut says so.
func TestHugeTextsPushNobodyOut(t *testing.T) {
	f, _, next := load(t, t.TempDir())
	l := New(Limits{}, nil, next)
	for i := range 200 {
		l.Add(some(i))
	}
	huge := some(200)
	huge.Name = strings.Repeat("ä", 1<<20)
	huge.Labels = map[string]string{"a": "b", "huge": strings.Repeat("ü", 3<<20), strings.Repeat("n", 1<<20): "x"}
	for i := range 1000 {
		huge.Labels[fmt.Sprint("l", i)] = "v"
	}
	before := maps.Clone(huge.Labels)
	for range 200 {
		l.Add(huge)
	}
	if !maps.Equal(huge.Labels, before) {
		t.Error("labels that others share were changed")
	}
	all, _ := l.Query(Query{})
	if len(all) != 400 {
		t.Fatalf("%d events are left of 400, %d bytes", len(all), l.Stats().Bytes)
	}
	e := all[399]
	if !strings.HasSuffix(e.Name, "… (2096128 bytes more)") || strings.ContainsRune(e.Name, utf8.RuneError) {
		t.Errorf("the name ends with %s", e.Name[len(e.Name)-40:])
	}
	if e.Labels["a"] != "b" || !strings.HasSuffix(e.Labels["huge"], " bytes more)") || !strings.Contains(e.Detail, "labels are left out") {
		t.Errorf("%d labels, %q", len(e.Labels), e.Detail)
	}
	if rest := f.write(linesOf(all)); len(rest) > 0 || f.Err() != nil {
		t.Fatalf("%d are not written: %v", len(rest), f.Err())
	}
	// What a former version wrote is bounded when it is read.
	old := New(Limits{}, []*Event{{Seq: 1, Event: huge}}, 2)
	if n := old.Stats().Bytes; n > maxEvent {
		t.Errorf("%d bytes", n)
	}
}

// FuzzBound: whatever an event says, it takes a bounded share, in memory and as
// a line, which can be read again.
func FuzzBound(f *testing.F) {
	f.Add("web", "shop:1", "a", "b", 3, "because")
	f.Add("web", "shop:1", "l", "", 5000, "")
	f.Add("", "\xff\xfe", "é", strings.Repeat("é", 600), 4000, "\x00")
	f.Fuzz(func(t *testing.T, name, image, label, value string, n int, detail string) {
		e := &Event{Seq: 1, Event: container.Event{Type: container.Died, Detail: detail, Name: name, Image: image, ID: value,
			OldName: label, Exit: &container.Exit{Reason: value}, OOM: &container.OOMKill{Process: name, Cgroup: value}, Labels: map[string]string{}}}
		for i := range min(max(n, 0), 5000) {
			e.Labels[fmt.Sprint(label, i)] = value
		}
		e.bound()
		if got := sizeOf(e); got > maxEvent {
			t.Fatalf("%d bytes in memory", got)
		}
		line, err := encode(e)
		if err != nil || len(line) > 6*maxEvent { // JSON may take six bytes for one
			t.Fatalf("%d bytes in the file, %v", len(line), err)
		}
		if r, ok := decode(line); !ok || len(r.event().Labels) != len(e.Labels) && utf8.ValidString(label) {
			t.Fatalf("%v: %s", ok, line)
		}
	})
}

// FuzzDecode: whatever a line holds, it is an event or it is passed over; an
// event can be written and read again.
func FuzzDecode(f *testing.F) {
	whole, err := encode(&Event{Seq: 7, Event: full()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"end":7}`))
	f.Add([]byte(`{"seq":5,"type":"thawed","labels":{"a":null},"exit":{}}`))
	f.Add([]byte(`{"seq":-1,"at":"yesterday"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, ok := decode(text)
		if !ok || r.End > 0 {
			return
		}
		e := r.event()
		e.bound()
		line, err := encode(e)
		if err != nil {
			return // a year that JSON does not take
		}
		again, ok := decode(line)
		if !ok || again.Seq != r.Seq || again.Type != r.Type {
			t.Fatalf("%s became %s", text, line)
		}
	})
}
