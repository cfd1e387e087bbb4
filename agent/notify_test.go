package agent

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/plugins/api/apitest"
)

// TestNotify: the service manager hears that the agent is ready once its API listens, and
// that it lives as long as its loop turns.
func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_PID", "")
	t.Setenv("WATCHDOG_USEC", "300000")
	hears := func(within time.Duration) string {
		_ = manager.SetReadDeadline(time.Now().Add(within))
		text := make([]byte, 100)
		n, _ := manager.Read(text)
		return string(text[:n])
	}

	w := apitest.New()
	server, err := api.New(w.Config())
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{api: server, serves: make(chan struct{}), log: slog.New(slog.DiscardHandler)}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- a.notify(ctx) }()
	if got := hears(100 * time.Millisecond); got != "" {
		t.Errorf("heard %q before the API listens", got)
	}
	close(a.serves)
	for _, want := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"} {
		if got := hears(10 * time.Second); got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	release := w.Engine.Hang()
	hears(200 * time.Millisecond) // one may have been on its way
	if got := hears(2 * time.Second); got != "" {
		t.Errorf("heard %q of a loop that hangs", got)
	}
	release()
	if got := hears(10 * time.Second); got != "WATCHDOG=1" {
		t.Errorf("heard %q of a loop that goes on", got)
	}
	stop()
	<-ended
	last := ""
	for got := hears(time.Second); got != ""; got = hears(100 * time.Millisecond) {
		last = got
	}
	if last != "STOPPING=1" {
		t.Errorf("heard %q at the end", last)
	}
}
