package proxy

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// datagrams forwards datagrams. Each client, known by its address and by the address of
// ours that it speaks to, has a socket of its own towards the server, so that answers find
// their way back.
type datagrams struct {
	*service
	conn *net.UDPConn
	// dial makes the socket of a client.
	dial func(ctx context.Context, address string) (net.Conn, error)

	mu      sync.Mutex
	clients map[clientID]*client
	recent  list.List // of *client, who was heard last is at the end
}

// clientID is whom a client is known by.
type clientID struct {
	from netip.AddrPort
	to   netip.Addr // of ours; invalid where the kernel does not tell
}

type client struct {
	id    clientID
	conn  net.Conn
	place *list.Element
	// reply goes with every answer: from which address of ours.
	reply []byte
	heard time.Time
}

// maxDatagram is more than any datagram has.
const maxDatagram = 1 << 16

func newDatagrams(c *net.UDPConn, s *service) *datagrams {
	d := &datagrams{service: s, conn: c, clients: map[clientID]*client{}}
	d.dial = func(ctx context.Context, address string) (net.Conn, error) {
		dialer := net.Dialer{Timeout: connectTime}
		return dialer.DialContext(ctx, "udp", address)
	}
	s.changed = d.forgetAll
	return d
}

// serve reads what clients send until the socket is closed.
func (d *datagrams) serve() error {
	buf, oob := make([]byte, maxDatagram), make([]byte, 256)
	for {
		n, m, _, from, err := d.conn.ReadMsgUDPAddrPort(buf, oob)
		switch {
		case errors.Is(err, net.ErrClosed):
			d.forgetAll()
			return err
		case err != nil: // of a client that has gone
			d.figures.note(&d.figures.failed, err)
			continue
		}
		to, reply := destination(oob[:m])
		c, err := d.client(clientID{from, to}, reply)
		if err == nil {
			_, err = c.conn.Write(buf[:n])
		}
		if err != nil && !errors.Is(err, net.ErrClosed) {
			d.figures.note(&d.figures.refused, err)
		}
	}
}

// client is the one that has sent something, known or new.
func (d *datagrams) client(id clientID, reply []byte) (*client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.rules.Load()
	if c := d.clients[id]; c != nil {
		c.heard = time.Now()
		d.recent.MoveToBack(c.place)
		return c, nil
	}
	for len(d.clients) >= r.MaxSessions {
		d.forget(d.recent.Front().Value.(*client))
		d.figures.evicted.Add(1)
	}
	conn, err := d.dial(context.Background(), r.Address) // of udp nobody is asked
	if err != nil {
		return nil, err
	}
	c := &client{id: id, conn: conn, reply: reply, heard: time.Now()}
	c.place = d.recent.PushBack(c)
	d.clients[id] = c
	d.figures.accepted.Add(1)
	d.figures.active.Add(1)
	go d.answers(c)
	return c, nil
}

// answers takes what the server sends to the client, until neither has sent anything for a
// while.
func (d *datagrams) answers(c *client) {
	buf := make([]byte, maxDatagram)
	for {
		_ = c.conn.SetReadDeadline(d.until(c))
		n, err := c.conn.Read(buf)
		var late net.Error
		switch {
		case err == nil:
			d.touch(c)
			if _, _, err := d.conn.WriteMsgUDPAddrPort(buf[:n], c.reply, c.id.from); errors.Is(err, net.ErrClosed) {
				return
			}
		case errors.Is(err, net.ErrClosed):
			return
		case errors.As(err, &late) && late.Timeout():
			if d.forgetIdle(c) {
				return
			}
		default: // nobody is there; who sends again finds out again
			d.figures.note(&d.figures.refused, err)
		}
	}
}

// until is when a client is forgotten if nothing happens.
func (d *datagrams) until(c *client) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return c.heard.Add(d.rules.Load().Idle)
}

// touch says that the client is in use.
func (d *datagrams) touch(c *client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.heard = time.Now()
	if d.clients[c.id] == c {
		d.recent.MoveToBack(c.place)
	}
}

// forgetIdle forgets a client, unless it was heard meanwhile.
func (d *datagrams) forgetIdle(c *client) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(c.heard) < d.rules.Load().Idle {
		return false
	}
	d.forget(c)
	return true
}

// forgetAll has every client begin anew: the rules are others.
func (d *datagrams) forgetAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.clients {
		d.forget(c)
	}
}

// forget ends the socket of a client. d.mu is held.
func (d *datagrams) forget(c *client) {
	if d.clients[c.id] != c {
		return
	}
	delete(d.clients, c.id)
	d.recent.Remove(c.place)
	c.conn.Close()
	d.figures.active.Add(-1)
}
