package netlink

import (
	"sync"

	"golang.org/x/sys/unix"
)

// packetSockets closes packet sockets in the background: the kernel waits for a grace period
// in each close, about 20 ms (packet_release in net/packet/af_packet.c).
type packetSockets struct {
	mu      sync.Mutex // guards what follows
	waiting []int
	closers int
	done    sync.WaitGroup
}

// maxClosers close at a time, and maxWaiting sockets wait for them; who has one more closes it
// itself.
const (
	maxClosers = 8
	maxWaiting = 256
)

func (p *packetSockets) close(fd int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == maxWaiting {
		p.mu.Unlock()
		unix.Close(fd)
		p.mu.Lock()
		return
	}
	p.waiting = append(p.waiting, fd)
	if p.closers < maxClosers {
		p.closers++
		p.done.Go(p.run)
	}
}

func (p *packetSockets) run() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiting) > 0 {
		fd := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.mu.Unlock()
		unix.Close(fd)
		p.mu.Lock()
	}
	p.closers--
}

// wait blocks until all are closed. No socket may be added meanwhile.
func (p *packetSockets) wait() { p.done.Wait() }
