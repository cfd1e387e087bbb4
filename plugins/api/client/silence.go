package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/plumb-net/plumb/plugins/private"
)

// patience is how long an agent may be silent while it has a call. A call may take as long as it
// likes; meanwhile the agent is asked something that takes it no time.
type patience struct {
	// every is how long after one question the next is asked.
	every time.Duration
	// stopped is how long an answer may take if the process is stopped, and silent how long
	// otherwise: a host may be slow.
	stopped, silent time.Duration
}

var defaultPatience = patience{every: 3 * time.Second, stopped: 2 * time.Second, silent: 30 * time.Second}

// Silent is the error of a call whose agent does not answer, not even that it is there.
type Silent struct {
	At string
	// For is how long it was waited for.
	For time.Duration
	// Why says what is known of its process.
	Why string
}

func (s *Silent) Error() string {
	text := fmt.Sprintf("the agent at %s does not answer for %s", s.At, s.For.Round(time.Second))
	if s.Why != "" {
		text += ": " + s.Why
	}
	return text
}

// Timeout makes it a net.Error.
func (s *Silent) Timeout() bool { return true }

// Temporary makes it a net.Error.
func (s *Silent) Temporary() bool { return true }

// attentive is a transport that ends calls whose agent has fallen silent.
type attentive struct {
	http.RoundTripper
	patience
	// ask asks the agent something by a new connection, and returns once it has answered or ctx
	// ends. It reports who listens as soon as that is known.
	ask func(ctx context.Context, pid func(int)) error
	at  string
	// holder returns the process of the agent if no connection tells; it may be nil.
	holder func() int
}

// RoundTrip implements http.RoundTripper.
func (a *attentive) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.watch(ctx); err != nil {
			cancel(err)
		}
	}()
	end := sync.OnceFunc(func() { cancel(context.Canceled); <-done })
	resp, err := a.RoundTripper.RoundTrip(r.WithContext(ctx))
	if err != nil {
		err = silence(ctx, err)
		end()
		return nil, err
	}
	resp.Body = &attentiveBody{resp.Body, ctx, end}
	return resp, nil
}

// CloseIdleConnections is for http.Client.
func (a *attentive) CloseIdleConnections() {
	if t, ok := a.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// silence returns the reason for which a call was ended, if that is silence.
func silence(ctx context.Context, err error) error {
	var s *Silent
	if errors.As(context.Cause(ctx), &s) {
		return s
	}
	return err
}

// watch returns an error once the agent has fallen silent, or nil when ctx ends.
func (a *attentive) watch(ctx context.Context) error {
	next := time.NewTimer(a.every)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		if err := a.question(ctx); err != nil {
			return err
		}
		next.Reset(a.every)
	}
}

// question asks the agent something. It returns nil if there was an answer, or none was needed any
// more.
func (a *attentive) question(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.silent)
	defer cancel()
	pids := make(chan int, 1)
	answered := make(chan error, 1)
	began := time.Now()
	go func() {
		answered <- a.ask(ctx, func(pid int) { pids <- pid })
	}()
	soon := time.NewTicker(a.stopped) // it may be stopped meanwhile
	defer soon.Stop()
	pid := 0
	for {
		select {
		case pid = <-pids:
			continue
		case <-soon.C:
			if !private.Stopped(a.process(pid)) {
				continue
			}
			cancel()
			<-answered //nolint:errcheck // it ends because it is cancelled
		case err := <-answered:
			if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil // an error that comes at once is one of the call as well
			}
		}
		s := &Silent{At: a.at, For: time.Since(began)}
		if pid = a.process(pid); pid != 0 {
			s.Why = private.Process(pid)
		}
		return s
	}
}

func (a *attentive) process(pid int) int {
	if pid == 0 && a.holder != nil {
		return a.holder()
	}
	return pid
}

// attentiveBody is the body of an answer, with which the call ends.
type attentiveBody struct {
	io.ReadCloser
	ctx context.Context
	end func()
}

func (b *attentiveBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		err = silence(b.ctx, err)
		if !errors.Is(err, io.EOF) { // more may be read after it, such as trailers
			return n, err
		}
		b.end()
	}
	return n, err
}

func (b *attentiveBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// askSocket asks an agent of this host whether it is there. Every answer will do.
func askSocket(socket string) func(context.Context, func(int)) error {
	return func(ctx context.Context, pid func(int)) error {
		conn, err := private.Dial(ctx, socket)
		if err != nil {
			return err
		}
		defer conn.Close()
		if p, err := private.Peer(conn.(*net.UnixConn)); err == nil {
			pid(p.PID)
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		defer stop()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n"); err != nil {
			return err
		}
		_, err = conn.Read(make([]byte, 1))
		return err
	}
}

// askPage asks an agent over the network whether it is there, by a connection of its own.
func askPage(t http.RoundTripper, base string) func(context.Context, func(int)) error {
	return func(ctx context.Context, _ func(int)) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/livez", nil)
		if err != nil {
			return err
		}
		resp, err := t.RoundTrip(r)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
}
