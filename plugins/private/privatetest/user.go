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
// for that. It needs root.
func As(uid int, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine, and with it the user
		_ = unix.Setfsuid(uid)
		f()
	}()
	<-done
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
