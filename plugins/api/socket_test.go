package api_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := api.Listen(path, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestSocketIsClosedToOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	path := filepath.Join(dir, "agent.sock")
	l := listen(t, path)
	if m := modeOf(t, path); m != 0o600 {
		t.Errorf("socket has mode %o", m)
	}
	if m := modeOf(t, dir); m != 0o700 {
		t.Errorf("directory has mode %o", m)
	}
	l.Close()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket stays behind: %v", err)
	}
}

// TestDirectoryKeepsItsMode: what we did not make we do not change.
func TestDirectoryKeepsItsMode(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	listen(t, filepath.Join(dir, "agent.sock"))
	if m := modeOf(t, dir); m != 0o755 {
		t.Errorf("directory has mode %o", m)
	}
}

// TestOpenDirectoryIsRefused: others could put a socket of their own in its place.
func TestOpenDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := api.Listen(filepath.Join(dir, "agent.sock"), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "others may write to "+dir) {
		t.Errorf("got %v", err)
	}
	if m := modeOf(t, dir); m != 0o777 {
		t.Errorf("directory has mode %o", m)
	}
}

func TestLiveSocketIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	listen(t, path)
	if _, err := api.Listen(path, nil, nil); err == nil || !strings.Contains(err.Error(), "another agent listens there") {
		t.Errorf("got %v", err)
	}
}

// TestForeignServerIsRefused: one who holds no lock and yet listens.
func TestForeignServerIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "agent.sock")
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := api.Listen(path, nil, nil); err == nil || !strings.Contains(err.Error(), "another agent listens there") {
		t.Errorf("got %v", err)
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "agent.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	listen(t, path)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestOtherFileIsLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "agent.sock")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Listen(path, nil, nil); err == nil || !strings.Contains(err.Error(), "something else is there") {
		t.Errorf("got %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("the file: %q, %v", b, err)
	}
}

func TestLongPathIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("x", 120), "agent.sock")
	if _, err := api.Listen(path, nil, nil); err == nil || !strings.Contains(err.Error(), "choose a shorter --run-dir") {
		t.Errorf("got %v", err)
	}
}

// strangerEnv holds the socket that TestStranger, run as a child, connects to.
const strangerEnv = "PLUMB_TEST_STRANGER"

// TestStranger connects as another user. Modes keep it out; when somebody has
// opened them, the credentials do.
func TestStranger(t *testing.T) {
	if socket := os.Getenv(strangerEnv); socket != "" {
		stranger(socket)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	// A directory that others can reach, for the socket and for this binary.
	base, err := os.MkdirTemp("/tmp", "plumb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(base, "stranger")
	copyFile(t, binary, os.Args[0])

	socket := filepath.Join(base, "run", "agent.sock")
	srv, err := api.New(apitest.New().Config())
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t, socket)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- srv.Serve(ctx, l) }()
	defer func() { cancel(); <-done }()

	if got := runStranger(t, binary, socket); !strings.Contains(got, "permission denied") {
		t.Errorf("with the modes as they are: %s", got)
	}
	for path, mode := range map[string]os.FileMode{filepath.Dir(socket): 0o755, socket: 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got := runStranger(t, binary, socket); !strings.Contains(got, "closed without an answer") {
		t.Errorf("with open modes: %s", got)
	}
	if _, err := dial(t, socket).Version(ctx, &apiv1.VersionRequest{}); err != nil {
		t.Errorf("root itself: %v", err)
	}
}

func runStranger(t *testing.T, binary, socket string) string {
	t.Helper()
	cmd := exec.Command(binary, "-test.run=^TestStranger$")
	cmd.Dir = "/"
	cmd.Env = []string{strangerEnv + "=" + socket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// stranger tries and prints how it went.
func stranger(socket string) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		println(err.Error())
		return
	}
	defer conn.Close()
	io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: agent\r\n\r\n")
	answer, err := io.ReadAll(conn)
	if len(answer) == 0 {
		println("closed without an answer")
		return
	}
	println("an answer", string(answer), err)
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}
