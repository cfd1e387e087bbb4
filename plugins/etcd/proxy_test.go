package etcd

import (
	"net"
	"sync"
	"testing"
)

// proxy stands between agent and server and misbehaves on request.
type proxy struct {
	l    net.Listener
	to   string
	done sync.WaitGroup

	mu     sync.Mutex // guards what follows
	conns  map[net.Conn]bool
	frozen chan struct{} // when not nil, nothing passes until it is closed
	closed bool
}

func startProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, to: to, conns: map[net.Conn]bool{}}
	p.done.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) url() string { return "http://" + p.l.Addr().String() }

func (p *proxy) accept() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil {
			in.Close()
			continue
		}
		if !p.add(in, out) {
			return
		}
		p.done.Go(func() { p.pipe(in, out) })
		p.done.Go(func() { p.pipe(out, in) })
	}
}

func (p *proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			c.Close()
		}
		p.conns[c] = true
	}
	return !p.closed
}

func (p *proxy) pipe(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if frozen != nil {
			<-frozen
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// freeze holds everything back, silently, until thaw.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.l.Close()
	p.thaw()
	p.cut()
	p.done.Wait()
}
