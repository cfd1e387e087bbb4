package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/client"
)

// slow is an agent that soon loses patience with bodies.
func slow(t *testing.T) (*apitest.Agent, string) {
	t.Helper()
	w := apitest.New()
	config := w.Config()
	config.BodyTime = 100 * time.Millisecond
	return w, apitest.Serve(t, config)
}

// TestSlowRequest: a body that does not come holds up nothing for ever.
func TestSlowRequest(t *testing.T) {
	_, socket := slow(t)
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /plumb.api.v1.Agent/Get HTTP/1.1\r\nHost: agent\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil) // it would wait until the test is killed
	if err == nil {
		answer.Body.Close()
		if answer.StatusCode < 400 {
			t.Errorf("status %d", answer.StatusCode)
		}
	}
}

// TestSlowReader: an answer that nobody takes is dropped.
func TestSlowReader(t *testing.T) {
	w, socket := slow(t)
	for i := range 64 { // more than fits into the socket
		build(t, w, fmt.Sprintf(`{"key":"interface/i%d","state":"failed","reason":%q}`, i, strings.Repeat("x", 64<<10)))
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /plumb.api.v1.Agent/List HTTP/1.1\r\nHost: agent\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	untilClosed(t, conn.(*net.UnixConn))
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if n, err := io.Copy(io.Discard, answer.Body); err == nil {
		t.Errorf("all %d bytes came", n)
	}
}

// untilClosed waits until the other side has closed a connection, and reads nothing.
func untilClosed(t *testing.T, conn *net.UnixConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for ends := time.Now().Add(time.Minute); time.Now().Before(ends); {
		var n int
		var failed error
		err := raw.Control(func(fd uintptr) {
			n, failed = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, 1000)
		})
		if err := errors.Join(err, failed); err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
	t.Fatal("the connection is open after one minute")
}

// TestStreamsAndWaitsAreNotCut: what takes long by its nature takes as long as it
// likes, also after another call on the same connection.
func TestStreamsAndWaitsAreNotCut(t *testing.T) {
	w, socket := slow(t)
	build(t, w, `{"key":"interface/web","state":"configured"}`)
	c := client.New(socket)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		if _, err := c.Get(ctx, &apiv1.GetRequest{Key: "interface/web"}); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := c.Watch(ctx, &apiv1.WatchRequest{})
	if err != nil || !stream.Receive() {
		t.Fatal(err, stream)
	}
	defer stream.Close()
	waited := make(chan error, 1)
	go func() {
		r, err := c.Wait(ctx, &apiv1.WaitRequest{Keys: []string{"interface/late"}})
		if err == nil && r.Outcome != "met" {
			err = errors.New(r.Outcome)
		}
		waited <- err
	}()
	time.Sleep(time.Second) // many times the limit
	build(t, w, `{"key":"interface/late","state":"configured"}`)
	if !stream.Receive() || len(stream.Msg().Changes) != 1 {
		t.Errorf("watch: %v, %v", stream.Msg(), stream.Err())
	}
	if err := <-waited; err != nil {
		t.Errorf("wait: %v", err)
	}
}

// TestLargeRequest: what is too large is refused and not read to its end.
func TestLargeRequest(t *testing.T) {
	_, socket := slow(t)
	h := plainHTTP(t, socket, nil)
	resp, err := h.Post("http://agent/plumb.api.v1.Agent/Put", "application/json", io.LimitReader(zeros{}, 65<<20))
	if err != nil {
		return // it was cut off while it was sent
	}
	defer resp.Body.Close()
	if resp.StatusCode < 400 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
