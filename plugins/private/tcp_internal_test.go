package private

import (
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/private/privatetest"
)

// TestUIDOfTCP: the user of the other end is the one whose socket it is, in both families and by
// both ways to ask; an end that nobody holds any more has no user, although the kernel names root.
func TestUIDOfTCP(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("sockets of other users need root")
	}
	for name, c := range map[string]struct {
		listen, dial string
		uid          int
		end          func(net.Conn) error
	}{
		"root":                     {listen: "127.0.0.1:0", uid: 0},
		"another user":             {listen: "127.0.0.1:0", uid: privatetest.Nobody},
		"another user over IPv6":   {listen: "[::1]:0", uid: privatetest.Nobody},
		"an IPv6 socket with IPv4": {listen: "127.0.0.1:0", dial: "::ffff:127.0.0.1", uid: privatetest.Nobody},
		"closed":                   {listen: "127.0.0.1:0", uid: privatetest.Nobody, end: net.Conn.Close},
		"closed over IPv6":         {listen: "[::1]:0", uid: privatetest.Nobody, end: net.Conn.Close},
		"half closed":              {listen: "127.0.0.1:0", uid: privatetest.Nobody, end: func(c net.Conn) error { return c.(*net.TCPConn).CloseWrite() }},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", c.listen)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			address := l.Addr().String()
			if c.dial != "" {
				_, port, _ := net.SplitHostPort(address)
				address = net.JoinHostPort(c.dial, port)
			}
			client := privatetest.Dialed(t, c.uid, address)
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			local, remote, err := addresses(server)
			if err != nil {
				t.Fatal(err)
			}
			if c.end != nil {
				if err := c.end(client); err != nil {
					t.Fatal(err)
				}
				_ = server.SetReadDeadline(time.Now().Add(10 * time.Second))
				if n, err := server.Read(make([]byte, 1)); n != 0 || err == nil {
					t.Fatalf("read %d bytes, %v", n, err)
				}
			}
			uid, err := UIDOfTCP(server)
			if c.end == nil && (err != nil || uid != c.uid) || c.end != nil && err == nil {
				t.Errorf("user %d, %v", uid, err)
			}
			// Both ways agree.
			diag, err1 := askDiag(remote, local)
			table, err2 := readTable(remote, local)
			if c.end != nil {
				return
			}
			if err1 != nil || err2 != nil || diag != table {
				t.Errorf("sock_diag says %+v (%v), the table %+v (%v)", diag, err1, table, err2)
			}
		})
	}
}

// TestUIDOfTCPListener: a socket of root that listens at the address of a client that has gone
// does not stand in for it.
func TestUIDOfTCPListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_ = client.(*net.TCPConn).SetLinger(0)
	from := client.LocalAddr().String()
	client.Close() // by a reset: nothing of it stays
	reuse := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) })
	}}
	other, err := reuse.Listen(t.Context(), "tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if uid, err := UIDOfTCP(server); err == nil {
		t.Errorf("user %d", uid)
	}
}
