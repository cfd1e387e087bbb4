package cni_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
)

func TestMain(m *testing.M) {
	if socket := os.Getenv("CNI_TEST_CONNECT"); socket != "" {
		os.Exit(stranger(socket))
	}
	goleak.VerifyTestMain(m)
}

// stranger is another process that connects; it reports whether anybody said hello.
func stranger(socket string) int {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Println("refused:", err)
		return 0
	}
	var h wire.Hello
	if err := wire.NewReader(conn).Read(&h); err != nil {
		fmt.Println("no hello")
		return 0
	}
	fmt.Println("hello")
	return 0
}

// handler serves calls with a function.
type handler func(ctx context.Context, c cni.Call) wire.Answer

func (h handler) Serve(ctx context.Context, c cni.Call) wire.Answer { return h(ctx, c) }

// serve runs a server until the test or stop ends it.
func serve(t *testing.T, h handler) (socket string, stop func() error) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "run", "cni.sock")
	s := cni.NewServer(h, cni.Options{Log: slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)), Stop: 200 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, socket, nil) }()
	for i := 0; ; i++ {
		if conn, err := net.Dial("unix", socket); err == nil { // the file is there before anybody listens
			conn.Close()
			break
		}
		if i > 1000 {
			t.Fatal("nobody listens")
		}
		time.Sleep(5 * time.Millisecond)
	}
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() { must(t, stop()) })
	return socket, stop
}

func connect(t *testing.T, socket string) (net.Conn, *wire.Reader) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	lines := wire.NewReader(conn)
	var h wire.Hello
	must(t, lines.Read(&h))
	if v, err := wire.Agree(h); err != nil || v != wire.Version {
		t.Fatal(v, err)
	}
	return conn, lines
}

func request(command, container string) wire.Request {
	return wire.Request{Protocol: 1, Args: spec.Args{Command: command, ContainerID: container, IfName: "eth0", Netns: "/run/netns/7"},
		Config: []byte(`{"cniVersion":"1.1.0","name":"blue"}`)}
}

func ask(t *testing.T, socket string, r wire.Request) wire.Answer {
	t.Helper()
	conn, lines := connect(t, socket)
	must(t, wire.Write(conn, r))
	var a wire.Answer
	must(t, lines.Read(&a))
	return a
}

// TestTypedErrors: what the handler says arrives; a panic is an error of its
// own call; what is malformed never reaches the handler.
func TestTypedErrors(t *testing.T) {
	socket, _ := serve(t, func(_ context.Context, c cni.Call) wire.Answer {
		switch c.ContainerID {
		case "panics":
			panic("what now")
		case "fails":
			return wire.Answer{Error: &spec.Error{Code: spec.Exists, Msg: "eth0 is there already"}}
		case "never":
			t.Error("a malformed request was served")
		}
		return wire.Answer{Result: &spec.Result{Interfaces: []spec.Interface{{Name: c.Key().String()}}}}
	})
	if a := ask(t, socket, request("ADD", "c1")); a.Error != nil || a.Result.Interfaces[0].Name != "blue/c1/eth0" {
		t.Errorf("%v", a)
	}
	if a := ask(t, socket, request("ADD", "fails")); a.Error == nil || a.Error.Code != spec.Exists {
		t.Errorf("%v", a)
	}
	if a := ask(t, socket, request("ADD", "panics")); a.Error == nil || a.Error.Code != spec.Internal {
		t.Errorf("%v", a)
	}
	for name, change := range map[string]struct {
		change func(r *wire.Request)
		code   int
	}{
		"protocol": {func(r *wire.Request) { r.Protocol = 9 }, spec.TryLater},
		"args":     {func(r *wire.Request) { r.IfName = "" }, spec.BadEnv},
		"config":   {func(r *wire.Request) { r.Config = []byte(`{"cniVersion":"1.1.0"}`) }, spec.BadConfig},
		"version":  {func(r *wire.Request) { r.Config = []byte(`{"cniVersion":"0.1.0","name":"blue"}`) }, spec.BadVersion},
	} {
		r := request("ADD", "never")
		change.change(&r)
		if a := ask(t, socket, r); a.Error == nil || a.Error.Code != change.code {
			t.Errorf("%s: %v", name, a.Error)
		}
	}
}

// TestClientGone: who leaves has given its call up.
func TestClientGone(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan error, 1)
	socket, _ := serve(t, func(ctx context.Context, _ cni.Call) wire.Answer {
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return wire.Answer{}
	})
	conn, _ := connect(t, socket)
	must(t, wire.Write(conn, request("ADD", "c1")))
	<-begun
	conn.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestF43_OwnLimitIsShorter: the agent gives up before the plugin does.
func TestF43_OwnLimitIsShorter(t *testing.T) {
	socket, _ := serve(t, func(ctx context.Context, _ cni.Call) wire.Answer {
		until, ok := ctx.Deadline()
		return wire.Answer{Warnings: []string{fmt.Sprint(ok, time.Until(until) > 33*time.Second, time.Until(until) > 29*time.Second, time.Until(until) > 5*time.Second)}}
	})
	for timeout, want := range map[int64]string{0: "true false true true", 35000: "true false true true", 3000: "true false false false"} {
		r := request("ADD", "c1")
		r.Timeout = timeout
		if a := ask(t, socket, r); a.Warnings[0] != want {
			t.Errorf("%d: %v, want %s", timeout, a.Warnings, want)
		}
	}
}

// TestStopDrains: when the agent stops nobody can ask any more, calls under way
// are answered, and those that do not end are ended.
func TestStopDrains(t *testing.T) {
	begun := make(chan struct{}, 2)
	finish := make(chan struct{})
	var served atomic.Int32
	socket, stop := serve(t, func(ctx context.Context, c cni.Call) wire.Answer {
		begun <- struct{}{}
		defer served.Add(1)
		if c.ContainerID == "hangs" {
			<-ctx.Done()
			return wire.Answer{Warnings: []string{"ended"}}
		}
		<-finish
		return wire.Answer{Warnings: []string{"done"}}
	})
	answers := map[string]chan wire.Answer{}
	for _, c := range []string{"quick", "hangs"} {
		answers[c] = make(chan wire.Answer, 1)
		conn, lines := connect(t, socket)
		must(t, wire.Write(conn, request("ADD", c)))
		go func() {
			var a wire.Answer
			_ = lines.Read(&a)
			answers[c] <- a
		}()
		<-begun
	}
	stopped := make(chan error, 1)
	go func() {
		err := stop()
		if n := served.Load(); n != 2 {
			t.Errorf("it stopped when %d of 2 calls had ended", n)
		}
		stopped <- err
	}()
	for range 10000 {
		if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := net.Dial("unix", socket); err == nil {
		t.Error("one can still connect")
	}
	close(finish)
	if a := <-answers["quick"]; len(a.Warnings) != 1 || a.Warnings[0] != "done" {
		t.Errorf("quick: %v", a)
	}
	if a := <-answers["hangs"]; len(a.Warnings) != 1 || a.Warnings[0] != "ended" {
		t.Errorf("hangs: %v", a)
	}
	must(t, <-stopped)
}

// TestSocket: for root alone; what a dead agent left is replaced, what a living
// one holds is not; a peer that is somebody else is not even greeted.
func TestSocket(t *testing.T) {
	socket, stop := serve(t, func(context.Context, cni.Call) wire.Answer { return wire.Answer{} })
	st, err := os.Stat(socket)
	must(t, err)
	if st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", st.Mode())
	}
	second := cni.NewServer(handler(nil), cni.Options{})
	if err := second.Run(t.Context(), socket, nil); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("a second server: %v", err)
	}
	if os.Getuid() == 0 {
		if got := asNobody(t, socket); !strings.Contains(got, "permission denied") {
			t.Errorf("nobody gets %q", got)
		}
		must(t, os.Chmod(socket, 0o666))
		if got := asNobody(t, socket); got != "no hello\n" {
			t.Errorf("nobody at an open socket gets %q", got)
		}
	}
	must(t, stop())
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"}) // as a crash leaves it
	must(t, err)
	dead.SetUnlinkOnClose(false)
	must(t, dead.Close())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- second.Run(ctx, socket, nil) }()
	for {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
			break
		}
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	must(t, <-ended)
}

// asNobody connects as another user.
func asNobody(t *testing.T, socket string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "stranger")
	text, err := os.ReadFile(os.Args[0])
	must(t, err)
	must(t, os.WriteFile(program, text, 0o755))
	for _, dir := range []string{filepath.Dir(program), filepath.Dir(socket)} {
		for ; dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
			must(t, os.Chmod(dir, 0o755)) // those of the test alone
		}
	}
	cmd := exec.Command(program)
	cmd.Env = []string{"CNI_TEST_CONNECT=" + socket}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
