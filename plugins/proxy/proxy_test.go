package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

func TestMain(m *testing.M) {
	Main()
	if spec := os.Getenv(asStarter); spec != "" {
		starter(spec)
	}
	goleak.VerifyTestMain(m)
}

// bench is two namespaces, in and out, and the port.
type bench struct {
	*netlink.Kernel
	*Proxies
	t       *testing.T
	dir     string
	in, out kernel.ProxyEnd // without an address
}

func newBench(t *testing.T) *bench {
	t.Helper()
	netlinktest.Root(t)
	b := &bench{t: t, dir: t.TempDir()}
	k, err := netlink.New(netlink.Options{NamedDir: netlinktest.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	b.Kernel = k
	for _, end := range []*kernel.ProxyEnd{&b.in, &b.out} {
		ns := netlinktest.New(t)
		ns.IP(t, "link set lo up")
		end.Path = ns.Path
		if end.NS, err = k.Open(ns.Path); err != nil {
			t.Fatal(err)
		}
	}
	b.Proxies = New(k, Options{Dir: filepath.Join(b.dir, "proxies")})
	t.Cleanup(b.Proxies.Close)
	return b
}

// at is an end at an address.
func (b *bench) at(end kernel.ProxyEnd, protocol, address string) kernel.ProxyEnd {
	end.Protocol, end.Address = protocol, address
	if strings.HasPrefix(address, "/") {
		end.NS, end.Path = 0, ""
	}
	return end
}

func (b *bench) within(end kernel.ProxyEnd, work func() error) error {
	if end.NS == 0 {
		return work()
	}
	return b.Within(end.NS, 0, work)
}

// label begins the marks of this test and of no other on this machine.
var label = fmt.Sprintf("plumb:port-%d:", os.Getpid())

func spec(in, out kernel.ProxyEnd) kernel.Proxy {
	return kernel.Proxy{Mark: label + "proxy/web", Listen: in, Forward: out, Mode: 0o600,
		Rules: kernel.ProxyRules{Address: out.Address, MaxSessions: 100, Idle: time.Minute, Note: json.RawMessage(`"note"`)}}
}

// start starts a proxy that ends with the test.
func (b *bench) start(p kernel.Proxy) kernel.ProxyProcess {
	b.t.Helper()
	made, err := b.StartProxy(b.t.Context(), p, func(kernel.ProxyProcess) error { return nil })
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := b.StopProxy(context.Background(), made); err != nil {
			b.t.Error(err)
		}
	})
	return made
}

func (b *bench) figures(p kernel.ProxyProcess) kernel.ProxyFigures {
	b.t.Helper()
	s, err := b.ReadProxy(b.t.Context(), p)
	if err != nil {
		b.t.Fatal(err)
	}
	return s.Figures
}

// dial connects from the namespace of an end.
func (b *bench) dial(end kernel.ProxyEnd) (c net.Conn) {
	b.t.Helper()
	err := b.within(end, func() (err error) { c, err = net.Dial(end.Protocol, end.Address); return err })
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// server serves connections, each by a function.
type server struct {
	l     net.Listener
	serve func(stream)
	wg    sync.WaitGroup
}

func (b *bench) serve(end kernel.ProxyEnd, serve func(stream)) *server {
	b.t.Helper()
	s := &server{serve: serve}
	err := b.within(end, func() (err error) { s.l, err = net.Listen(end.Protocol, end.Address); return err })
	if err != nil {
		b.t.Fatal(err)
	}
	s.wg.Go(func() {
		for {
			c, err := s.l.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { defer c.Close(); s.serve(c.(stream)) })
		}
	})
	b.t.Cleanup(func() { s.l.Close(); s.wg.Wait() })
	return s
}

// mirror reads to the end, and only then sends all of it back.
func mirror(c stream) {
	text, err := io.ReadAll(c)
	if err == nil {
		_, _ = c.Write(text)
	}
}

// echo sends back what comes as it comes.
func echo(c stream) { _, _ = io.Copy(c, c) }

func noise(n int) []byte {
	text := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(text)
	return text
}

// TestStreams: every kind of stream is forwarded to every kind, and whoever has said all
// that he has to say goes on listening.
func TestStreams(t *testing.T) {
	b := newBench(t)
	addresses := func(side string, end kernel.ProxyEnd) []kernel.ProxyEnd {
		return []kernel.ProxyEnd{
			b.at(end, "tcp", "127.0.0.1:80"), b.at(end, "tcp", "[::1]:81"),
			b.at(end, "unix", filepath.Join(b.dir, side)), b.at(end, "unix", "@"+side),
		}
	}
	for _, out := range addresses("out", b.out) {
		b.serve(out, mirror)
		for _, in := range addresses("in", b.in) {
			t.Run(in.Protocol+" "+in.Address+" to "+out.Address, func(t *testing.T) {
				b := &bench{Kernel: b.Kernel, Proxies: b.Proxies, t: t}
				p := b.start(spec(in, out))
				c, text := b.dial(in).(stream), noise(1<<20)
				if _, err := c.Write(text); err != nil {
					t.Fatal(err)
				}
				if err := c.CloseWrite(); err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(c)
				if err != nil || !bytes.Equal(got, text) {
					t.Errorf("%d of %d bytes came back: %v", len(got), len(text), err)
				}
				netlinktest.Eventually(t, "its connection has ended", func() bool { return b.figures(p).Active == 0 })
			})
		}
	}
}

// TestServerEndsFirst: that the server has said all is forwarded while the client goes on.
func TestServerEndsFirst(t *testing.T) {
	b := newBench(t)
	in, out := b.at(b.in, "tcp", "127.0.0.1:80"), b.at(b.out, "tcp", "127.0.0.1:80")
	heard := make(chan string, 1)
	b.serve(out, func(c stream) {
		_, _ = c.Write([]byte("hello"))
		_ = c.CloseWrite()
		text, _ := io.ReadAll(c)
		heard <- string(text)
	})
	b.start(spec(in, out))
	c := b.dial(in).(stream)
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	_, _ = c.Write([]byte("and now the client"))
	_ = c.CloseWrite()
	if got := <-heard; got != "and now the client" {
		t.Errorf("the server heard %q", got)
	}
}

// TestMany: many connections at once, and nothing is left of them in the process.
func TestMany(t *testing.T) {
	b := newBench(t)
	in, out := b.at(b.in, "tcp", "127.0.0.1:80"), b.at(b.out, "unix", "@web")
	b.serve(out, mirror)
	s := spec(in, out)
	s.Rules.MaxSessions = 1000
	p := b.start(s)
	files := func() int {
		all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	b.figures(p)
	const many = 300
	before, text := files(), noise(10_000)
	var all sync.WaitGroup
	for range many {
		c := b.dial(in).(stream)
		all.Go(func() {
			_, _ = c.Write(text)
			_ = c.CloseWrite()
			if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%d of %d bytes came back: %v", len(got), len(text), err)
			}
			c.Close()
		})
	}
	all.Wait()
	netlinktest.Eventually(t, "all connections have ended", func() bool { return b.figures(p).Active == 0 })
	netlinktest.Eventually(t, "all files are closed", func() bool { return files() <= before })
	if got := b.figures(p); got.Accepted != many || got.Refused != 0 {
		t.Errorf("%+v", got)
	}
}

// TestBackpressure: a server that does not read stops the client, and not by memory of the
// process.
func TestBackpressure(t *testing.T) {
	b := newBench(t)
	in, out := b.at(b.in, "tcp", "127.0.0.1:80"), b.at(b.out, "tcp", "127.0.0.1:80")
	read := make(chan struct{})
	b.serve(out, func(c stream) { <-read; mirror(c) })
	defer close(read)
	b.start(spec(in, out))
	c, text, sent := b.dial(in), noise(1<<20), 0
	for sent < 256<<20 {
		_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		n, err := c.Write(text)
		if sent += n; err != nil {
			break
		}
	}
	if sent >= 256<<20 {
		t.Errorf("%d bytes were taken of which none was read", sent)
	}
}

// TestRefused: a client that cannot be taken to the server hears of it at once, and is
// counted; the next one finds the server that has come meanwhile.
func TestRefused(t *testing.T) {
	b := newBench(t)
	in, out := b.at(b.in, "tcp", "127.0.0.1:80"), b.at(b.out, "tcp", "127.0.0.1:80")
	p := b.start(spec(in, out))
	err := b.within(in, func() error {
		c, err := net.Dial(in.Protocol, in.Address)
		if err == nil { // else it was quicker than connect
			defer c.Close()
			_, err = c.Read(make([]byte, 1))
		}
		return err
	})
	if !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the client hears %v", err)
	}
	got := b.figures(p)
	if got.Accepted != 1 || got.Refused != 1 || !strings.Contains(got.LastError, "connection refused") {
		t.Errorf("%+v", got)
	}
	if all := b.Figures(t.Context()); len(all) != 1 || all[p.Mark].Refused != 1 {
		t.Errorf("%+v", all)
	}
	netlinktest.Eventually(t, "it is through with that client", func() bool { return b.figures(p).Active == 0 })
	b.serve(out, echo)
	if got := b.says(in, "hello"); got != "hello" {
		t.Errorf("%q", got)
	}
}

// says is what comes back of a text over a new connection.
func (b *bench) says(end kernel.ProxyEnd, text string) string {
	b.t.Helper()
	c := b.dial(end)
	defer c.Close()
	return talk(b.t, c, text)
}

func talk(t *testing.T, c net.Conn, text string) string {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

// TestCutOff: a connection that is cut off at one end is at the other, and does not look
// like one that has ended.
func TestCutOff(t *testing.T) {
	b := newBench(t)
	in, out := b.at(b.in, "tcp", "127.0.0.1:80"), b.at(b.out, "tcp", "127.0.0.1:80")
	b.serve(out, func(c stream) {
		_, _ = c.Read(make([]byte, 1))
		reset(c)
	})
	b.start(spec(in, out))
	c := b.dial(in)
	_, _ = c.Write([]byte("x"))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the client hears %v", err)
	}
}

// TestChanges: while it runs a process takes more clients and forwards to another address,
// and the connections that are open stay as they are.
func TestChanges(t *testing.T) {
	b := newBench(t)
	in, first := b.at(b.in, "tcp", "127.0.0.1:80"), b.at(b.out, "tcp", "127.0.0.1:80")
	second := b.at(b.out, "tcp", "127.0.0.1:81")
	b.serve(first, echo)
	b.serve(second, func(c stream) {
		_, _ = c.Read(make([]byte, 100))
		_, _ = c.Write([]byte("second"))
	})
	s := spec(in, first)
	s.Rules.MaxSessions = 1
	p := b.start(s)
	open := b.dial(in)
	if got := talk(t, open, "one"); got != "one" {
		t.Errorf("%q", got)
	}
	waits := b.dial(in)
	if _, err := waits.Write([]byte("two")); err != nil {
		t.Fatal(err)
	}
	if got := b.figures(p); got.Active != 1 || got.Accepted != 1 {
		t.Errorf("a second one was taken: %+v", got)
	}
	s.Rules.MaxSessions, s.Rules.Address, s.Rules.Note = 2, second.Address, json.RawMessage(`"other"`)
	if err := b.SetProxy(t.Context(), p, s.Rules, 0o600); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	if n, err := waits.Read(buf); err != nil || string(buf[:n]) != "second" && string(buf[:n]) != "two" {
		t.Errorf("%q, %v", buf[:n], err)
	}
	if got := talk(t, open, "still"); got != "still" {
		t.Errorf("%q", got)
	}
	state, err := b.ReadProxy(t.Context(), p)
	if err != nil || string(state.Rules.Note) != `"other"` || state.Rules.Address != second.Address {
		t.Errorf("%+v, %v", state, err)
	}
}
