package dial_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/plugins/etcd/dial"
)

// written is a log that many write to.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// TestNoPasswordInLog: neither the password of the user nor one in an endpoint is in the log,
// whatever its level, nor in an error.
func TestNoPasswordInLog(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("hunter2-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, endpoint := range []string{
		"http://amy:hunter2-url@127.0.0.1:1", "https://amy:hunter2-url@127.0.0.1:1/x", "amy:hunter2-url@127.0.0.1:1", "http://amy:hunter2@hunter2-url@127.0.0.1:1",
	} {
		for _, user := range []string{"", "amy"} {
			log := &written{}
			c := dial.Config{Endpoints: []string{endpoint}, OpTimeout: 100 * time.Millisecond,
				Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug - 100}))}
			if user != "" {
				c.User, c.PasswordFile = user, password
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			client, err := dial.Connect(ctx, c)
			if err == nil {
				_, err = client.Get(ctx, "x")
				_, _ = client.Grant(ctx, time.Minute)
				client.Close()
			}
			cancel()
			if err == nil {
				t.Errorf("%s: something answers", endpoint)
			}
			if log.String() == "" {
				t.Errorf("%s: nothing is in the log", endpoint)
			}
			if text := log.String() + err.Error(); strings.Contains(text, "hunter2") {
				t.Errorf("%s, user %q:\n%s", endpoint, user, text)
			}
		}
	}
}

// TestPasswordFileOfAnotherType: a pipe in place of the file is an error, and nobody waits
// for its writer.
func TestPasswordFileOfAnotherType(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "password")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := dial.CheckPassword(pipe); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Error(err)
	}
	_, err := dial.Connect(t.Context(), dial.Config{Endpoints: []string{"http://127.0.0.1:1"}, User: "amy", PasswordFile: pipe})
	if err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Error(err)
	}
}
