// Package privatetest lets tests act as another user of the host.
package privatetest

import (
	"context"
	"net"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Nobody is the ID of a user who owns nothing.
const Nobody = 65534

// As calls f in a thread that opens files and sockets as a user, and without capabilities of root
// for that. It needs root. The thread does not end: processes that it has started may be bound to it
// (see PR_SET_PDEATHSIG in prctl(2)).
func As(uid int, f func()) {
	runtime.LockOSThread()
	own, _ := unix.SetfsuidRetUid(uid)
	f()
	_ = unix.Setfsuid(own)
	if now, _ := unix.SetfsuidRetUid(-1); now != own { // which changes nothing and returns the user
		panic("the thread does not become what it was")
	}
	runtime.UnlockOSThread()
}

// Dial returns a connection by a socket that a user owns.
func Dial(ctx context.Context, uid int, address string) (conn net.Conn, err error) {
	As(uid, func() { conn, err = new(net.Dialer).DialContext(ctx, "tcp", address) })
	return conn, err
}

// Dialed is Dial for a test, which closes the connection at its end.
func Dialed(t testing.TB, uid int, address string) net.Conn {
	t.Helper()
	conn, err := Dial(context.Background(), uid, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
