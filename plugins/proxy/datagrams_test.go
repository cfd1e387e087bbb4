package proxy

import (
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// answerer answers every datagram with the address that it came from and the text.
func (b *bench) answerer(end kernel.ProxyEnd) {
	b.t.Helper()
	var c net.PacketConn
	err := b.within(end, func() (err error) { c, err = net.ListenPacket("udp", end.Address); return err })
	if err != nil {
		b.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1<<16)
		for {
			n, from, err := c.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			_, _ = c.WriteTo([]byte(from.String()+" "+string(buf[:n])), from)
		}
	}()
	b.t.Cleanup(func() { c.Close(); <-done })
}

// peer is where the server sees a client, by an answer of it.
func peer(t *testing.T, c net.Conn, text string) string {
	t.Helper()
	got := talk(t, c, text)
	if len(got) < len(text) || got[len(got)-len(text):] != text {
		t.Fatalf("%q to %q", got, text)
	}
	return got[:len(got)-len(text)]
}

// TestDatagrams: each client has its own socket, and its answers come from the address that
// it has asked.
func TestDatagrams(t *testing.T) {
	for name, c := range map[string]struct{ listen, ask, other, forward string }{
		"ipv4": {"0.0.0.0:53", "127.0.0.1:53", "127.0.0.2:53", "127.0.0.1:53"},
		"ipv6": {"[::]:53", "[::1]:53", "127.0.0.2:53", "[::1]:53"},
		"one":  {"127.0.0.3:53", "127.0.0.3:53", "127.0.0.3:53", "[::1]:53"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.answerer(b.at(b.out, "udp", c.forward))
			p := b.start(spec(b.at(b.in, "udp", c.listen), b.at(b.out, "udp", c.forward)))
			one, two := b.dial(b.at(b.in, "udp", c.ask)), b.dial(b.at(b.in, "udp", c.other))
			first, second := peer(t, one, "hello"), peer(t, two, "hello")
			if first == second || peer(t, one, "again") != first || peer(t, two, "again") != second {
				t.Errorf("the server sees %q and %q", first, second)
			}
			if got := b.figures(p); got.Active != 2 || got.Accepted != 2 || got.Refused != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestIdle: a client that is silent is forgotten, and begins anew when it speaks again.
func TestIdle(t *testing.T) {
	b := newBench(t)
	in, out := b.at(b.in, "udp", "127.0.0.1:53"), b.at(b.out, "udp", "127.0.0.1:53")
	b.answerer(out)
	s := spec(in, out)
	s.Rules.Idle = 100 * time.Millisecond
	p := b.start(s)
	c := b.dial(in)
	answered := func() bool { // on a busy machine it may be forgotten before
		_, _ = c.Write([]byte("hello"))
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_, err := c.Read(make([]byte, 100))
		return err == nil
	}
	netlinktest.Eventually(t, "it is answered", answered)
	netlinktest.Eventually(t, "it is forgotten", func() bool { return b.figures(p).Active == 0 })
	before := b.figures(p).Accepted
	netlinktest.Eventually(t, "it is answered again", answered)
	if got := b.figures(p); got.Accepted <= before {
		t.Errorf("%+v", got)
	}
}

// TestGivesWay: of too many clients the one that was silent for longest gives way.
func TestGivesWay(t *testing.T) {
	b := newBench(t)
	in, out := b.at(b.in, "udp", "127.0.0.1:53"), b.at(b.out, "udp", "127.0.0.1:53")
	b.answerer(out)
	s := spec(in, out)
	s.Rules.MaxSessions = 2
	p := b.start(s)
	one, two, three := b.dial(in), b.dial(in), b.dial(in)
	first, second := peer(t, one, "1"), peer(t, two, "1")
	if peer(t, one, "2") != first {
		t.Error("the first was forgotten")
	}
	peer(t, three, "1")
	if peer(t, one, "3") != first {
		t.Error("the first gave way, and the second was silent for longer")
	}
	if peer(t, two, "2") == second {
		t.Error("the second did not give way")
	}
	if got := b.figures(p); got.Active != 2 || got.Evicted != 2 || got.Accepted != 4 {
		t.Errorf("%+v", got)
	}
}

// TestNobodyAnswers: that nobody is there is counted, and the client finds out by itself
// when somebody is.
func TestNobodyAnswers(t *testing.T) {
	b := newBench(t)
	in, out := b.at(b.in, "udp", "127.0.0.1:53"), b.at(b.out, "udp", "127.0.0.1:53")
	p := b.start(spec(in, out))
	c := b.dial(in)
	netlinktest.Eventually(t, "it is counted", func() bool {
		_, _ = c.Write([]byte("hello"))
		return b.figures(p).Refused > 0
	})
	b.answerer(out)
	netlinktest.Eventually(t, "it is answered", func() bool {
		_, _ = c.Write([]byte("hello"))
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_, err := c.Read(make([]byte, 100))
		return err == nil
	})
	// Nothing of this is an error for who sends to the proxy.
	if _, err := c.Write([]byte("x")); errors.Is(err, unix.ECONNREFUSED) {
		t.Error(err)
	}
}
