package systemd_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/systemd"
)

// manager is the socket of a service manager.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

// listen plays a service manager, whose watchdog is off with 0.
func listen(t *testing.T, watchdog time.Duration) manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_PID", "")
	t.Setenv("WATCHDOG_USEC", "")
	if watchdog != 0 {
		t.Setenv("WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
	}
	return manager{t, conn}
}

// hears is the next that is told within the time, "" if nothing is.
func (m manager) hears(within time.Duration) string {
	m.t.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		m.t.Fatal(err)
	}
	text := make([]byte, 100)
	n, err := m.conn.Read(text)
	var late net.Error
	if err != nil && (!errors.As(err, &late) || !late.Timeout()) {
		m.t.Fatal(err)
	}
	return string(text[:n])
}

func (m manager) expect(want string) {
	m.t.Helper()
	if got := m.hears(10 * time.Second); got != want {
		m.t.Fatalf("heard %q, want %q", got, want)
	}
}

// run runs a service and returns how to stop it.
func run(t *testing.T, s systemd.Service) (stop func()) {
	s.Log = slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	}
	t.Cleanup(cancel)
	return stop
}

func well(context.Context) error { return nil }

// TestStory: ready once the service can be spoken with, stopping when it stops; without a
// watchdog nobody asks whether it lives.
func TestStory(t *testing.T) {
	m := listen(t, 0)
	serves := make(chan struct{})
	stop := run(t, systemd.Service{
		Ready: func(ctx context.Context) error {
			select {
			case <-serves:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		Alive: func(context.Context) error { t.Error("asked"); return nil },
	})
	if got := m.hears(50 * time.Millisecond); got != "" {
		t.Errorf("heard %q of a service that does not serve yet", got)
	}
	close(serves)
	m.expect("READY=1")
	stop()
	m.expect("STOPPING=1")
}

// TestNeverReady: a service that is stopped before it serves says that it stops.
func TestNeverReady(t *testing.T) {
	m := listen(t, time.Minute)
	stop := run(t, systemd.Service{Ready: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, Alive: well})
	stop()
	m.expect("STOPPING=1")
}

// TestWatchdog: it is told that the service lives well within the time, not while it
// hangs, and again when it goes on.
func TestWatchdog(t *testing.T) {
	const limit = 300 * time.Millisecond
	m := listen(t, limit)
	var hangs atomic.Bool
	run(t, systemd.Service{Ready: well, Alive: func(context.Context) error {
		if hangs.Load() {
			return errors.New("the loop does not answer in time")
		}
		return nil
	}})
	m.expect("READY=1")
	m.expect("WATCHDOG=1")
	if got := m.hears(limit); got != "WATCHDOG=1" {
		t.Errorf("heard %q within the time", got)
	}
	hangs.Store(true)
	m.hears(limit / 2) // one may have been on its way
	if got := m.hears(2 * limit); got != "" {
		t.Errorf("heard %q of a service that hangs", got)
	}
	hangs.Store(false)
	m.expect("WATCHDOG=1")
}

// TestNobodyAsks: without a service manager the service runs as ever.
func TestNobodyAsks(t *testing.T) {
	listen(t, 0)
	t.Setenv("NOTIFY_SOCKET", "")
	run(t, systemd.Service{Ready: well, Alive: well})()
}
