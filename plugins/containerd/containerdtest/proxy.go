package containerdtest

import (
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
)

// Proxy stands between an engine and who speaks to it, byte for byte, so that
// the connection can fail while the engine is well.
type Proxy struct {
	// Socket is where to speak to it.
	Socket string

	target   string
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	// flows is closed while bytes flow.
	flows chan struct{}
	ended chan struct{}
}

// NewProxy starts a proxy before the socket; it ends with the test.
func NewProxy(t testing.TB, socket string) *Proxy {
	t.Helper()
	p := &Proxy{
		Socket: filepath.Join(t.TempDir(), "p.sock"), target: socket,
		conns: map[net.Conn]bool{}, flows: make(chan struct{}), ended: make(chan struct{}),
	}
	close(p.flows)
	listener, err := net.Listen("unix", p.Socket)
	if err != nil {
		t.Fatal(err)
	}
	p.listener = listener
	p.work.Go(p.accept)
	t.Cleanup(func() {
		close(p.ended)
		_ = listener.Close()
		p.Cut()
		p.work.Wait()
	})
	return p
}

func (p *Proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(near) })
	}
}

func (p *Proxy) serve(near net.Conn) {
	far, err := net.Dial("unix", p.target)
	if err != nil {
		_ = near.Close()
		return
	}
	p.mu.Lock()
	p.conns[near], p.conns[far] = true, true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, near)
		delete(p.conns, far)
		p.mu.Unlock()
	}()
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, gate{p, from})
		_ = near.Close()
		_ = far.Close()
	}
	both.Go(func() { pass(far, near) })
	both.Go(func() { pass(near, far) })
	both.Wait()
}

// gate reads only while bytes flow.
type gate struct {
	p    *Proxy
	from net.Conn
}

func (g gate) Read(b []byte) (int, error) {
	n, err := g.from.Read(b)
	g.p.mu.Lock()
	flows := g.p.flows
	g.p.mu.Unlock()
	select {
	case <-flows:
	case <-g.p.ended:
	}
	return n, err
}

// Cut closes all connections; new ones work.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Hang holds back all bytes, in connections that are there and to come, until
// Flow.
func (p *Proxy) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flows = make(chan struct{})
}

// Flow ends a Hang.
func (p *Proxy) Flow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.flows)
}
