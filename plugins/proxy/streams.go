package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// stream is a connection of tcp or unix.
type stream interface {
	net.Conn
	CloseWrite() error
}

// streams accepts connections until the listener is closed. While all slots are taken
// further ones wait in the kernel.
func (s *service) streams(l net.Listener) error {
	pause := time.Duration(0)
	for {
		s.slots.take()
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			s.slots.give()
			return err
		}
		if err != nil { // no more files, for one
			s.slots.give()
			s.figures.note(&s.figures.failed, err)
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			time.Sleep(pause)
			continue
		}
		pause = 0
		s.figures.accepted.Add(1)
		s.figures.active.Add(1)
		go func() {
			defer s.slots.give()
			s.forward(c.(stream))
			s.figures.active.Add(-1)
			select {
			case s.ended <- struct{}{}:
			default:
			}
		}()
	}
}

// forward serves one client to its end. One that cannot be taken to the other end hears of
// it at once.
func (s *service) forward(client stream) {
	d := net.Dialer{Timeout: connectTime}
	c, err := d.DialContext(context.Background(), s.order.To, s.rules.Load().Address)
	if err != nil {
		s.figures.note(&s.figures.refused, err)
		reset(client)
		return
	}
	p := pair{client: client, server: c.(stream)}
	p.run()
}

// pair is a client and the server that it is forwarded to.
type pair struct {
	client, server stream

	mu    sync.Mutex
	ended int // directions that have ended as their sender wanted
}

func (p *pair) run() {
	var both sync.WaitGroup
	both.Go(func() { p.copy(p.server, p.client) })
	both.Go(func() { p.copy(p.client, p.server) })
	both.Wait()
	p.client.Close()
	p.server.Close()
}

// copy takes one direction to its end. The kernel moves the bytes from socket to socket,
// no faster than the receiver takes them. Who says that he will send no more goes on
// receiving.
func (p *pair) copy(to, from stream) {
	if _, err := io.Copy(to, from); err != nil {
		p.abort()
		return
	}
	p.mu.Lock()
	p.ended++
	p.mu.Unlock()
	_ = to.CloseWrite() // it may have gone already
}

// abort ends both connections after an error of one: what was cut off must not look like
// an end. If one direction has ended well, what is still on its way there is delivered.
func (p *pair) abort() {
	p.mu.Lock()
	well := p.ended > 0
	p.mu.Unlock()
	for _, c := range []stream{p.client, p.server} {
		if well {
			c.Close()
		} else {
			reset(c)
		}
	}
}

// reset closes a connection so that the peer hears that it was cut off, as far as its
// protocol has that.
func reset(c stream) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}
