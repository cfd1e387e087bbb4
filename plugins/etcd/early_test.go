package etcd

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/plumb-net/plumb/plugins/private"
)

// storePID is the process that serves an embedded store.
func storePID(t *testing.T, c Config) string {
	t.Helper()
	pid, err := os.ReadFile(filepath.Join(c.dataDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	return string(pid)
}

// free fails if somebody serves the embedded store.
func free(t *testing.T, c Config) {
	t.Helper()
	l, err := private.Take(filepath.Join(c.dataDir(), "lock"))
	if err != nil {
		t.Fatalf("the store is still served: %v", err)
	}
	l.Release()
}

// A store that was started early is the one that is used, and when it ends the plugin starts
// it again.
func TestEarlyStore(t *testing.T) {
	c := config(t)
	c.Early = StartEarly(c)
	<-c.Early.done
	first := storePID(t, c)
	a := runAgent(t, c)
	a.ready()
	if now := storePID(t, c); now != first {
		t.Errorf("process %s was started, and %s is used", first, now)
	}
	c.Early.Close() // it is the plugin's now
	a.upTo(put(t, client(t, "unix://"+c.socket()), "route/a", "1"))
	sessions := a.sessions()
	killStore(t, c)
	a.nextSession(sessions)
	if now := storePID(t, c); now == first {
		t.Errorf("process %s was killed, and is used", first)
	}
	a.wants("route/a=1")
}

// Whoever does not come to use it ends it, whether it is ready or not.
func TestEarlyStoreIsNotLeftBehind(t *testing.T) {
	c := config(t)
	e := StartEarly(c)
	<-e.done
	e.Close()
	free(t, c)
	StartEarly(c).Close()
	free(t, c)

	c.Early = StartEarly(c)
	a := newAgent(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := a.Run(ctx); err != nil {
		t.Fatal(err)
	}
	free(t, c)
}

// A store that cannot be started early is spoken of as any that cannot, and healed alike.
func TestEarlyStoreThatFails(t *testing.T) {
	c := config(t)
	a := runAgent(t, c)
	a.ready()
	a.upTo(put(t, client(t, "unix://"+c.socket()), "route/a", "1"))
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(c.dataDir(), "member", "snap")
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Early = StartEarly(c)
	a = runAgent(t, c)
	a.state(healthDown, "")
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	a.ready()
	a.wants("route/a=1")
}

// With an external store there is nothing to start.
func TestEarlyExternal(t *testing.T) {
	c := config(t, "http://127.0.0.1:1")
	e := StartEarly(c)
	if _, ok, err := e.take(t.Context()); ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
	e.Close()
	if _, err := os.Stat(c.dataDir()); !os.IsNotExist(err) {
		t.Errorf("%s was made: %v", c.dataDir(), err)
	}
}
