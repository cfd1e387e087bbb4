package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plumb-net/plumb/models"
)

// killStore ends the process of an embedded store.
func killStore(t *testing.T, c Config) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dataDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// The embedded store dies in the middle of work: the agent goes on, and so does
// the store, with all that it had.
func TestTheEmbeddedStoreComesBack(t *testing.T) {
	c := config(t)
	a := runAgent(t, c)
	a.ready()
	kv := client(t, "unix://"+c.socket())
	a.upTo(put(t, kv, "route/a", "1"))
	for range 3 {
		sessions := a.Health().Details["sessions"]
		killStore(t, c)
		a.await("the store is followed again", func() bool {
			h := a.Health()
			return h.State == healthOK && h.Details["sessions"] != sessions
		})
	}
	a.upTo(put(t, kv, "route/b", "2"))
	a.wants("route/a=1 route/b=2")
}

// breakStore damages the data of a store that does not run, and says so that the
// agent runs without it.
func breakStore(t *testing.T, c Config) {
	t.Helper()
	member := filepath.Join(c.dataDir(), "member", "wal")
	logs, err := os.ReadDir(member)
	if err != nil || len(logs) == 0 {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(member, logs[0].Name()), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(strings.Repeat("noise", 100)), 200); err != nil {
		t.Fatal(err)
	}
}

// A damaged store: the agent runs without it and says the way out, which brings
// back what can be read; nothing is withdrawn before that is accepted. A store
// that can be used is left alone.
func TestRecover(t *testing.T) {
	c := config(t)
	c.tune.stuckAfter = 3 * time.Second // some starts are stuck; TestDamagedStore waits for the default
	var out strings.Builder
	try := func(force bool) error { return Recover(t.Context(), c, force, &out) }
	if err := try(false); err == nil || !strings.Contains(err.Error(), "there is no data") {
		t.Errorf("no data: %v", err)
	}
	a := runAgent(t, c)
	a.ready()
	kv := client(t, "unix://"+c.socket())
	for i := range 250 {
		put(t, kv, fmt.Sprintf("route/r%03d", i), "1")
	}
	a.upTo(del(t, kv, "config/route/r007"))
	if err := try(false); err == nil || !strings.Contains(err.Error(), "answers: nothing was done") {
		t.Errorf("it runs: %v", err)
	}
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	if err := try(false); err == nil || !strings.Contains(err.Error(), "can be used: nothing was done") {
		t.Errorf("it is whole: %v", err)
	}
	breakStore(t, c)
	a = runAgent(t, c)
	a.state(healthDown, "plumb-agent recover-store")
	if _, err := a.Write(t.Context(), []models.Write{write("a", "1")}); !errors.Is(err, models.ErrStoreDown) || !strings.Contains(err.Error(), "recover-store") {
		t.Errorf("Write: %v", err)
	}
	if a.Failed() == nil {
		t.Error("it has not failed")
	}
	if err := try(false); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	if !strings.Contains(out.String(), "the new store has all 249 keys") {
		t.Errorf("it says\n%s", out.String())
	}
	a.state(healthDegraded, "another store or an emptied one")
	a.await("what was read is wanted", func() bool { return a.rec.count() > 0 })
	if txns := a.rec.since(0); txns[0].Complete || len(txns[0].Want) != 249 {
		t.Errorf("it said\n%s", story(txns))
	}
	if _, err := a.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.state(healthOK, "")
	if kept, _ := filepath.Glob(c.dataDir() + ".damaged-*/member/snap/db"); len(kept) != 1 {
		t.Errorf("put aside: %v", kept)
	}
	out.Reset()
	if err := try(true); err != nil { // while it runs and is used
		t.Fatal(err)
	}
	a.state(healthDegraded, "another store or an emptied one")
}

// FuzzRecords: whatever the small files of the state directory hold, they are
// read or are unreadable, and never taken for absent.
func FuzzRecords(f *testing.F) {
	f.Add([]byte(`{"id":"x","revision":7,"cluster":9}`))
	f.Add([]byte(`{"id":""}`))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		for _, name := range []string{"store.json", "uuid"} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if known := openMemory(dir).get(); known.ID == "" {
			t.Errorf("%q is no record", text)
		}
		if id, err := loadUUID(dir); err == nil && strings.TrimSpace(id) == "" {
			t.Errorf("%q is the uuid %q", text, id)
		}
	})
}
