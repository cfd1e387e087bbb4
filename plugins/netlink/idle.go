package netlink

import (
	"container/list"
	"sync"
)

// maxIdle conns are kept per namespace, and maxIdleAll in all: those that were used
// last. More exist only while as many calls run at once: a deletion waits 20 ms for
// the kernel, and nothing shall queue behind it. A conn costs 9 µs to open.
const (
	maxIdle    = 2
	maxIdleAll = 256
)

// idleConns are the conns that nobody uses, over all namespaces.
type idleConns struct {
	mu    sync.Mutex // guards what follows, and the idle of namespaces
	order list.List  // of *conn, the one used last in front
	most  int        // how many are kept, at most maxIdleAll
}

// fit keeps few where few files may be open.
func (p *idleConns) fit(limit int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most = min(maxIdleAll, limit/16)
	for p.order.Len() > p.most {
		p.drop(p.order.Back().Value.(*conn)).close()
	}
}

// take gives out a conn of the namespace, nil if there is none.
func (p *idleConns) take(n *namespace) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(n.idle) - 1
	if last < 0 {
		return nil
	}
	c := n.idle[last]
	n.idle = n.idle[:last]
	p.order.Remove(c.place)
	return c
}

// put keeps a conn of the namespace; what is one too many is closed.
func (p *idleConns) put(n *namespace, c *conn) {
	p.mu.Lock()
	if len(n.idle) < maxIdle {
		n.idle = append(n.idle, c)
		c.of, c.place = n, p.order.PushFront(c)
		c = nil
		if p.order.Len() > p.most {
			c = p.drop(p.order.Back().Value.(*conn))
		}
	}
	p.mu.Unlock()
	if c != nil {
		c.close()
	}
}

// drop takes a conn out; p.mu is held.
func (p *idleConns) drop(c *conn) *conn {
	p.order.Remove(c.place)
	for i, other := range c.of.idle {
		if other == c {
			c.of.idle = append(c.of.idle[:i], c.of.idle[i+1:]...)
			break
		}
	}
	return c
}

// closeOf closes the conns of a namespace.
func (p *idleConns) closeOf(n *namespace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range n.idle {
		p.order.Remove(c.place)
		c.close()
	}
	n.idle = nil
}

// closeAll closes all conns that nobody uses, and reports whether there were any.
func (p *idleConns) closeAll() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	some := p.order.Len() > 0
	for p.order.Len() > 0 {
		p.drop(p.order.Front().Value.(*conn)).close()
	}
	return some
}
