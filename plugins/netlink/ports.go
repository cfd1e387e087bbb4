package netlink

import (
	"time"

	"golang.org/x/sys/unix"
)

// portWait bounds how long the kernel may take to enable the port of a link that joins a bridge.
const portWait = 1100 * time.Millisecond

// waitForPorts waits until bridges have enabled the ports of links that have a carrier, so that no
// packet is lost after the links have joined. A bridge that a link joins leaves the port disabled
// while the operational state of the link is down (br_add_if in net/bridge/br_if.c). That state
// follows the carrier up to a second later for a veth whose peer in another namespace has the same
// index, since the kernel does not treat such an event as urgent (linkwatch_urgent_event in
// net/core/link_watch.c).
func (n *namespace) waitForPorts(indexes ...int) {
	pause(time.Now().Add(portWait), func() (done bool) {
		indexes = n.aboutToForward(indexes)
		return len(indexes) == 0
	})
}

// aboutToForward returns those of the links whose ports the kernel is about to enable: they have a
// carrier, and their bridges are up.
func (n *namespace) aboutToForward(indexes []int) (soon []int) {
	links := make([]*outlet, len(indexes))
	n.readOutlets(indexes, links)
	var disabled, masters []int
	for i, l := range links {
		if l.refused == nil && l.flags&unix.IFF_LOWER_UP != 0 && l.port == portDisabled {
			disabled, masters = append(disabled, indexes[i]), append(masters, l.master)
		}
	}
	bridges := make([]*outlet, len(masters))
	n.readOutlets(masters, bridges)
	for i, b := range bridges {
		if b.flags&unix.IFF_UP != 0 {
			soon = append(soon, disabled[i])
		}
	}
	return soon
}
