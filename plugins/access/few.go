package access

import (
	"net"
	"net/netip"
	"sync"
)

const (
	// maxConns bounds the connections at a time, and maxConnsOfOne those of one address.
	maxConns, maxConnsOfOne = 256, 64
)

// Few is a listener that hands out few connections at a time, since nobody is known before
// the handshake: so many in all, and so many of one address. refused hears of what is closed.
func Few(l net.Listener, refused func(from net.Addr)) net.Listener {
	return &bounded{Listener: l, refused: refused, from: map[netip.Prefix]int{}}
}

type bounded struct {
	net.Listener
	refused func(from net.Addr)

	mu   sync.Mutex // guards what follows
	all  int
	from map[netip.Prefix]int
}

// Accept closes what is too much.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		whose := neighborhood(conn.RemoteAddr())
		if b.take(whose) {
			return &counted{Conn: conn, end: sync.OnceFunc(func() { b.release(whose) })}, nil
		}
		conn.Close()
		b.refused(conn.RemoteAddr())
	}
}

func (b *bounded) take(whose netip.Prefix) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all >= maxConns || b.from[whose] >= maxConnsOfOne {
		return false
	}
	b.all++
	b.from[whose]++
	return true
}

func (b *bounded) release(whose netip.Prefix) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all--
	if b.from[whose]--; b.from[whose] == 0 {
		delete(b.from, whose)
	}
}

// neighborhood is what one stranger has at least: an address of IPv4, a network of IPv6.
func neighborhood(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, bits := tcp.AddrPort().Addr().Unmap(), 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.WithZone("").Prefix(bits)
	return p
}

// counted is a connection that is missed when it closes.
type counted struct {
	net.Conn
	end func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.end()
	return c.Conn.Close()
}
