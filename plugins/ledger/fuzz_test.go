package ledger

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// FuzzOpen: whatever stands in the file, it is read without a panic, what is read can be
// written and read again, and a file that is said to be whole holds what was written.
func FuzzOpen(f *testing.F) {
	d := &memDisk{}
	l, _, err := open(d, Witness{}, nil)
	if err != nil {
		f.Fatal(err)
	}
	if err := l.Add(kernel.Entry{ID: "interface/web", NS: 7, Mark: "plumb:x:interface/web"}, kernel.Entry{ID: "route/r", Value: []byte(`{"a":1}`)}); err != nil {
		f.Fatal(err)
	}
	l.Remove("route/r")
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(d.file)
	f.Add(d.file[:len(d.file)-5])
	f.Add([]byte(strings.Replace(string(d.file), "2", "9", 1)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		d := &memDisk{file: slices.Clone(text)}
		l, found, err := open(d, Witness{}, func(Found) error { return nil })
		if err != nil {
			return // of a later release: it is left alone
		}
		entries := l.Entries("")
		if err := l.Add(kernel.Entry{ID: "interface/new"}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		again, now, err := open(&memDisk{file: d.file}, Witness{}, func(Found) error { return nil })
		if err != nil || now.Damage != "" {
			t.Fatalf("what was written is %v %q; it was %q", err, now.Damage, found.Damage)
		}
		for _, e := range entries {
			if had, ok := again.Get(e.ID); e.ID != "interface/new" && (!ok || !had.Equal(e)) {
				t.Fatalf("%+v is %+v after a start", e, had)
			}
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzLine: an entry that is read without encoding/json is what that would read.
func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"add":{"id":"route/r","ns":7,"ns_path":"/run/netns/x","boot":"b","value":{"a":[1]},"prior":{},"mark":"m","index":-3}}`))
	f.Add([]byte(`{"add":{"id":"a\nb"}}`))
	f.Add([]byte(`{"add":{"id":"interface/a","index":7,"identity":{"name":"a","type":"veth","mac":"02:00:00:00:00:01","cookie":9}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := readEntry(text)
		var plain change
		if err := json.Unmarshal(text, &plain); got != nil && (err != nil || plain.Add == nil || !got.Equal(*plain.Add)) {
			t.Errorf("%q is %+v, for encoding/json %+v, %v", text, got, plain.Add, err)
		}
	})
}
