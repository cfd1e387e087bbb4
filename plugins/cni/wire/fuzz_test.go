package wire

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// FuzzLines: whatever comes at the socket, lines are read to the end or refused, and none
// is longer than it may be.
func FuzzLines(f *testing.F) {
	for _, s := range []string{
		`{"plumb":"cni","oldest":1,"newest":1}` + "\n", `{"protocol":1,"command":"ADD","container_id":"c","config":{}}` + "\n" + `{}` + "\n", "\n", "{}", "[1]\n{", `{"oldest":1e99}` + "\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, v := range []any{&Hello{}, &Request{}, &Answer{}} {
			r := NewReader(bytes.NewReader(text))
			for range 1 + bytes.Count(text, []byte("\n")) {
				if r.Read(v) != nil {
					break
				}
			}
			if h, ok := v.(*Hello); ok {
				if p, err := Agree(*h); err == nil && (p < Oldest || p > Version) {
					t.Fatalf("%+v: agreed on %d", h, p)
				}
			}
		}
	})
}

// FuzzNote: a file in the queue is a DEL, or is named as one that cannot be read; a DEL
// that was read can be left again, and is the same.
func FuzzNote(f *testing.F) {
	for _, s := range []string{
		`{"protocol":0,"command":"DEL","container_id":"c1","netns":"/run/netns/7","ifname":"eth0","inode":7,"config":{"cniVersion":"1.0.0","name":"blue"},"queued":5}`,
		`{"command":"ADD"}`, `{"command":"DEL"}`, `{"command":"DEL","config":[]}`, `{"command":"DEL","config":null,"tries":-1}`, `{"command":"DE`, ``, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		run := t.TempDir()
		if err := os.Mkdir(QueueDir(run), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(QueueDir(run), "x.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		left, bad, err := Queue(run)
		if err != nil || len(left)+len(bad) != 1 {
			t.Fatalf("%d left, %d bad, %v", len(left), len(bad), err)
		}
		if len(bad) == 1 {
			return
		}
		if left[0].Command != "DEL" {
			t.Fatalf("%+v", left[0])
		}
		again := t.TempDir()
		if Leave(again, left[0].Request) != nil {
			return // without a configuration nobody can leave it
		}
		same, bad, err := Queue(again)
		if err != nil || len(same) != 1 || len(bad) != 0 {
			t.Fatalf("%d left again, %v, %v", len(same), bad, err)
		}
		a, _ := json.Marshal(left[0].Request)
		b, _ := json.Marshal(same[0].Request)
		if !bytes.Equal(a, b) {
			t.Fatalf("%s became %s", a, b)
		}
	})
}
