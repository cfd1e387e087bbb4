package private

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// answering is a listener that answers "hello" to each connection, and the reports of its sockets.
func answering(t *testing.T, path string) (l *Listener, restored chan error) {
	t.Helper()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l.every = time.Millisecond
	restored = make(chan error, 100)
	l.Restored = func(err error) { restored <- err }
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				return
			}
			_, _ = conn.Write([]byte("hello"))
			conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
		goleak.VerifyNone(t)
	})
	return l, restored
}

// hears reports whether a connection is answered.
func hears(t *testing.T, path string) error {
	t.Helper()
	conn, err := Dial(t.Context(), path)
	if err != nil {
		return err
	}
	defer conn.Close()
	text := make([]byte, 5)
	if _, err := conn.Read(text); err != nil || string(text) != "hello" {
		return errors.Join(err, errors.New("no answer"))
	}
	return nil
}

// TestRestore: whatever of a socket is removed or replaced while it is served, it is made again,
// with its lock, and says so once.
func TestRestore(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, dir string){
		"the socket":             func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "s"))) },
		"the lock":               func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "s.lock"))) },
		"the directory":          func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) },
		"the directory, by name": func(t *testing.T, dir string) { must(t, os.Rename(dir, dir+".old")) },
		"the socket, by name":    func(t *testing.T, dir string) { must(t, os.Rename(filepath.Join(dir, "s"), filepath.Join(dir, "t"))) },
		"the lock is replaced": func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "new"), nil, 0o600))
			must(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "s.lock")))
		},
		"a dead socket in its place": func(t *testing.T, dir string) {
			dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "dead")})
			must(t, err)
			dead.SetUnlinkOnClose(false)
			must(t, dead.Close())
			must(t, os.Rename(filepath.Join(dir, "dead"), filepath.Join(dir, "s")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			path := filepath.Join(dir, "s")
			_, restored := answering(t, path)
			must(t, hears(t, path))
			remove(t, dir)
			must(t, <-restored)
			must(t, hears(t, path))
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the socket: %v, %v", info, err)
			}
			if other, err := Listen(path); err == nil || !strings.Contains(err.Error(), "another agent listens there") {
				t.Errorf("another one listens: %v", err)
				other.Close()
			}
			if len(restored) > 0 {
				t.Errorf("it is said again: %v", <-restored)
			}
		})
	}
}

// TestRestoreLater: what is no socket of ours is left alone, and is said once; the socket is made
// when that is gone.
func TestRestoreLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	path := filepath.Join(dir, "s")
	_, restored := answering(t, path)
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("precious"), 0o600))
	must(t, os.Rename(filepath.Join(dir, "f"), path))
	if err := <-restored; err == nil || !strings.Contains(err.Error(), "something else is there") {
		t.Fatalf("it says %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	must(t, os.Remove(path))
	must(t, <-restored)
	must(t, hears(t, path))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
