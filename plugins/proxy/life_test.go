package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// TestTaken: who has the address is named, and keeps it.
func TestTaken(t *testing.T) {
	b := newBench(t)
	out := b.at(b.out, "tcp", "127.0.0.1:80")
	file := func(name string) string { return filepath.Join(b.dir, name) }
	b.serve(b.at(b.in, "tcp", "127.0.0.1:80"), echo)
	b.serve(b.at(b.in, "tcp", "[::1]:81"), echo)
	b.serve(b.at(b.in, "unix", "@taken"), echo)
	b.serve(b.at(b.in, "unix", file("served")), echo)
	if err := os.WriteFile(file("plain"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: file("dead"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	me := fmt.Sprintf("process %d (", os.Getpid())
	for _, c := range []struct{ protocol, address, by string }{
		{"tcp", "127.0.0.1:80", me}, {"tcp", "0.0.0.0:80", me}, {"tcp", "[::]:81", me},
		{"unix", "@taken", ""}, {"unix", file("served"), me},
		{"unix", file("plain"), "a file that is no socket"},
		{"unix", file("dead"), "a socket file at which nobody listens any more; remove it"},
	} {
		_, err := b.StartProxy(t.Context(), spec(b.at(b.in, c.protocol, c.address), out), func(kernel.ProxyProcess) error {
			t.Errorf("%s: a process was started", c.address)
			return nil
		})
		var taken *kernel.TakenError
		if !errors.As(err, &taken) || !errors.Is(err, kernel.ErrExist) || !strings.HasPrefix(taken.By, c.by) {
			t.Errorf("%s: %v", c.address, err)
		}
	}
	for _, name := range []string{"served", "plain", "dead"} {
		if _, err := os.Lstat(file(name)); err != nil {
			t.Error(err)
		}
	}
	// Of a proxy the mark is told.
	in := b.at(b.in, "udp", "127.0.0.1:53")
	b.start(spec(in, b.at(b.out, "udp", "127.0.0.1:53")))
	other := spec(b.at(b.in, "udp", "0.0.0.0:53"), b.at(b.out, "udp", "127.0.0.1:53"))
	other.Mark = label + "proxy/other"
	var taken *kernel.TakenError
	if _, err := b.StartProxy(t.Context(), other, nil); !errors.As(err, &taken) || taken.Mark != label+"proxy/web" {
		t.Errorf("%v, %+v", err, taken)
	}
	for address, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1 is no address of the namespace, or not yet",
	} {
		if _, err := b.StartProxy(t.Context(), spec(b.at(b.in, "tcp", address), out), nil); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := b.StartProxy(t.Context(), spec(b.at(b.in, "unix", "/nowhere/x"), out), nil); err == nil || !strings.Contains(err.Error(), "the directory /nowhere is not there") {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(b.dir, "proxies")); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestSocketFile: it is born with its mode, is known again, and only ours is removed.
func TestSocketFile(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(b.dir, "web")
	s := spec(b.at(b.in, "unix", path), b.at(b.out, "tcp", "127.0.0.1:80"))
	s.Mode = 0o666
	p := b.start(s)
	if mode, err := b.ProxyFile(p); err != nil || mode != 0o666 {
		t.Errorf("%o, %v", mode, err)
	}
	if err := b.SetProxy(t.Context(), p, s.Rules, 0o640); err != nil {
		t.Error(err)
	}
	if mode, err := b.ProxyFile(p); err != nil || mode != 0o640 {
		t.Errorf("%o, %v", mode, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ProxyFile(p); !errors.Is(err, kernel.ErrNotExist) {
		t.Error(err)
	}
	b.serve(b.at(b.in, "unix", path), echo)
	if _, err := b.ProxyFile(p); !errors.Is(err, kernel.ErrNotExist) {
		t.Error(err)
	}
	if err := b.StopProxy(t.Context(), p); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the file of another was removed: %v", err)
	}
}

// TestRenounces: the process has nothing that it does not need.
func TestRenounces(t *testing.T) {
	b := newBench(t)
	// What the agent was given by others and has not closed.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	given, err := unix.FcntlInt(read.Fd(), unix.F_DUPFD, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(given)
	for protocol, capabilities := range map[string]string{"tcp": "0000000000000000", "unix": "0000000000000002"} {
		address := map[string]string{"tcp": "127.0.0.1:80", "unix": "@web"}[protocol]
		p := b.start(spec(b.at(b.in, "tcp", "127.0.0.1:80"), b.at(b.out, protocol, address)))
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"CapPrm:\t" + capabilities, "CapEff:\t" + capabilities, "CapBnd:\t" + capabilities, "CapInh:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Name:\tplumb-proxy"} {
			if !strings.Contains(string(status), want) {
				t.Errorf("%s: no %q in\n%s", protocol, want, status)
			}
		}
		if sid, err := unix.Getsid(p.PID); err != nil || sid != p.PID {
			t.Errorf("it is in session %d, %v", sid, err)
		}
		if environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID)); err != nil || len(environ) > 0 {
			t.Errorf("environment %q, %v", environ, err)
		}
		want := []string{"/dev/null", "/dev/null", "/dev/null", "anon_inode:[eventfd]", "anon_inode:[eventpoll]", "socket", "socket"}
		netlinktest.Eventually(t, "it has only its files open", func() bool { return slices.Equal(openFiles(t, p), want) })
		if err := b.StopProxy(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
}

// openFiles are the files of a process but for those by which the runtime learns how many
// processors there are.
func openFiles(t *testing.T, p kernel.ProxyProcess) (open []string) {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", p.PID, f.Name()))
		if strings.HasPrefix(to, "socket:") {
			to = "socket"
		}
		if !strings.HasPrefix(to, "/sys/fs/cgroup/") {
			open = append(open, to)
		}
	}
	slices.Sort(open)
	return open
}

// TestEnds: the end of a process is heard at once, but not if it was asked for; and nothing
// is taken for a process that is not it.
func TestEnds(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended, done := make(chan string, 10), make(chan struct{})
	s := spec(b.at(b.in, "tcp", "127.0.0.1:80"), b.at(b.out, "tcp", "127.0.0.1:80"))
	early := b.start(s)
	kill(t, early)
	netlinktest.Eventually(t, "its end is known", func() bool {
		_, err := b.ReadProxy(ctx, early)
		return errors.Is(err, kernel.ErrNotExist)
	})
	go func() { defer close(done); b.WatchProxies(ctx, func(mark string) { ended <- mark }) }()
	defer func() { cancel(); <-done }()
	if got := <-ended; got != s.Mark {
		t.Errorf("%s", got)
	}
	p := b.start(s)
	kill(t, p)
	if got := <-ended; got != s.Mark {
		t.Errorf("%s", got)
	}
	p = b.start(s)
	for _, other := range []kernel.ProxyProcess{
		{Mark: p.Mark, PID: p.PID, Start: p.Start + 1, Control: p.Control},
		{Mark: label + "proxy/other", PID: p.PID, Start: p.Start, Control: p.Control},
		{Mark: p.Mark, PID: os.Getpid(), Start: p.Start, Control: p.Control},
	} {
		if _, err := b.ReadProxy(ctx, other); !errors.Is(err, kernel.ErrNotExist) {
			t.Errorf("%+v is taken for it: %v", other, err)
		}
	}
	if err := b.StopProxy(ctx, p); err != nil {
		t.Fatal(err)
	}
	if len(ended) > 0 {
		t.Error("an end that was asked for is told")
	}
	if left, _ := os.ReadDir(filepath.Join(b.dir, "proxies")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func kill(t *testing.T, p kernel.ProxyProcess) {
	t.Helper()
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// TestEndsWithItsNamespace: it keeps no namespace of a container that has ended, also when
// there is no agent.
func TestEndsWithItsNamespace(t *testing.T) {
	for _, side := range []string{"listen", "forward"} {
		b := newBench(t)
		holder := netlinktest.Start(t)
		s := spec(b.at(b.in, "tcp", "127.0.0.1:80"), b.at(b.out, "tcp", "127.0.0.1:80"))
		end := map[string]*kernel.ProxyEnd{"listen": &s.Listen, "forward": &s.Forward}[side]
		holder.IP(t, "link set lo up")
		end.Path = holder.Path
		var err error
		if end.NS, err = b.Open(end.Path); err != nil {
			t.Fatal(err)
		}
		p := b.start(s)
		holder.Kill()
		netlinktest.Eventually(t, "it ends", func() bool {
			_, err := b.ReadProxy(t.Context(), p)
			return errors.Is(err, kernel.ErrNotExist)
		})
	}
}

// asStarter in the environment makes this binary an agent that starts a proxy.
const asStarter = "PLUMB_PROXY_STARTER"

// task is what such an agent does.
type task struct {
	Dir   string
	Spec  kernel.Proxy
	Crash bool // before the process is recorded
}

func starter(text string) {
	var do task
	err := json.Unmarshal([]byte(text), &do)
	k, err2 := netlink.New(netlink.Options{})
	if err = errors.Join(err, err2); err == nil {
		for _, end := range []kernel.ProxyEnd{do.Spec.Listen, do.Spec.Forward} {
			if end.Path != "" {
				_, bad := k.Open(end.Path)
				err = errors.Join(err, bad)
			}
		}
	}
	if err == nil {
		var p kernel.ProxyProcess
		p, err = New(k, Options{Dir: do.Dir}).StartProxy(context.Background(), do.Spec, func(p kernel.ProxyProcess) error {
			if do.Crash {
				_ = json.NewEncoder(os.Stdout).Encode(p)
				return syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return nil
		})
		_ = json.NewEncoder(os.Stdout).Encode(p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

// byAnother has another agent start a proxy.
func (b *bench) byAnother(s kernel.Proxy, crash bool) (p kernel.ProxyProcess, agent *os.Process) {
	b.t.Helper()
	text, err := json.Marshal(task{Dir: filepath.Join(b.dir, "proxies"), Spec: s, Crash: crash})
	if err != nil {
		b.t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		b.t.Fatal(err)
	}
	defer read.Close()
	agent, err = os.StartProcess("/proc/self/exe", []string{"agent"}, &os.ProcAttr{
		Env: append(os.Environ(), asStarter+"="+string(text)), Files: []*os.File{nil, write, os.Stderr}})
	write.Close()
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = agent.Kill(); _, _ = agent.Wait() })
	if err := json.NewDecoder(read).Decode(&p); err != nil {
		b.t.Fatal(err)
	}
	return p, agent
}

// TestGoesOn: when the agent is killed the process goes on with its connections, and the
// next agent finds it, by the ledger and by its mark alone.
func TestGoesOn(t *testing.T) {
	b := newBench(t)
	in, out := b.at(b.in, "tcp", "127.0.0.1:80"), b.at(b.out, "tcp", "127.0.0.1:80")
	b.serve(out, echo)
	p, agent := b.byAnother(spec(in, out), false)
	c := b.dial(in)
	if got := talk(t, c, "before"); got != "before" {
		t.Errorf("%q", got)
	}
	_ = agent.Kill()
	_, _ = agent.Wait()
	if got := talk(t, c, "without an agent"); got != "without an agent" {
		t.Errorf("%q", got)
	}
	if got := b.figures(p); got.Active != 1 || got.Accepted != 1 {
		t.Errorf("%+v", got)
	}
	all, err := b.MarkedProxies()
	if !slices.Contains(all, p) || err != nil {
		t.Errorf("%+v is not among %+v, %v", p, all, err)
	}
	if got := talk(t, c, "found"); got != "found" {
		t.Errorf("%q", got)
	}
	if err := b.StopProxy(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection goes on")
	}
}

// TestCrash: an agent that is killed before it has recorded the process leaves none. What
// is left is a socket file, and it is known as ours by what the ledger said before.
func TestCrash(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(b.dir, "web")
	s := spec(b.at(b.in, "unix", path), b.at(b.out, "tcp", "127.0.0.1:80"))
	since := time.Now()
	p, _ := b.byAnother(s, true)
	netlinktest.Eventually(t, "it ends without an order", func() bool {
		_, err := b.ReadProxy(t.Context(), kernel.ProxyProcess{Mark: p.Mark, PID: p.PID, Start: p.Start, Control: p.Control})
		return errors.Is(err, kernel.ErrNotExist)
	})
	recorded := kernel.ProxyProcess{Mark: s.Mark, File: kernel.SocketFile{Path: path, Since: since}}
	if _, err := b.ReadProxy(t.Context(), recorded); !errors.Is(err, kernel.ErrProxyEnded) {
		t.Errorf("what is left: %v", err)
	}
	// Announced later, it is another's.
	s.Since = time.Now().Add(time.Hour)
	if _, err := b.StartProxy(t.Context(), s, nil); !errors.Is(err, kernel.ErrExist) {
		t.Error(err)
	}
	s.Since = since
	p = b.start(s)
	if err := b.StopProxy(t.Context(), p); err != nil {
		t.Error(err)
	}
	p, _ = b.byAnother(s, true)
	netlinktest.Eventually(t, "nobody serves it", func() bool { return dead(path) })
	if err := b.StopProxy(t.Context(), recorded); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(b.dir); len(left) != 1 {
		t.Errorf("left behind by %d: %v", p.PID, left)
	}
	if left, _ := os.ReadDir(filepath.Join(b.dir, "proxies")); len(left) != 0 {
		t.Errorf("left behind by %d: %v", p.PID, left)
	}
}
