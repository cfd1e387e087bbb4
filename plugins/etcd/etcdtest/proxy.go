package etcdtest

import (
	"net"
	"sync"
	"testing"
)

// Proxy stands between agent and server and misbehaves on request. Its methods may
// be called from any goroutine.
type Proxy struct {
	l    net.Listener
	to   string
	done sync.WaitGroup

	mu     sync.Mutex // guards what follows
	conns  map[net.Conn]bool
	off    bool
	frozen chan struct{} // when not nil, nothing passes until it is closed
}

// StartProxy starts a proxy to an address; it ends with the test.
func StartProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{l: l, to: to, conns: map[net.Conn]bool{}}
	p.done.Go(p.serve)
	t.Cleanup(func() {
		l.Close()
		p.Thaw()
		p.Cut()
		p.done.Wait()
	})
	return p
}

// URL is the endpoint for clients.
func (p *Proxy) URL() string { return "http://" + p.l.Addr().String() }

func (p *Proxy) serve() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil || !p.join(in, out) {
			in.Close()
			continue
		}
		p.done.Go(func() { p.pass(out, in) })
		p.done.Go(func() { p.pass(in, out) })
	}
}

func (p *Proxy) join(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.off {
			c.Close()
			continue
		}
		p.conns[c] = true
	}
	return !p.off
}

func (p *Proxy) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
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

// Break ends all connections. New ones are let through.
func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// Cut ends all connections and lets no new one through until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	p.off = true
	p.mu.Unlock()
	p.Break()
}

// Mend ends what Cut began.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = false
}

// Freeze holds everything back, silently, until Thaw.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

// Thaw ends what Freeze began.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}
