package netlink

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Messages and attributes of connection tracking, see linux/netfilter/nfnetlink_conntrack.h.
const (
	getFlow    = unix.NFNL_SUBSYS_CTNETLINK<<8 | 1 // IPCTNL_MSG_CT_GET
	deleteFlow = unix.NFNL_SUBSYS_CTNETLINK<<8 | 2 // IPCTNL_MSG_CT_DELETE

	ctaTupleOrig  = 1
	ctaTupleReply = 2
	ctaID         = 12
	ctaZone       = 18
	ctaFilter     = 25

	ctaFilterOrig  = 1
	ctaFilterReply = 2

	ctaTupleIP    = 1
	ctaTupleProto = 2

	ctaV4Source      = 1
	ctaV4Destination = 2
	ctaV6Source      = 3
	ctaV6Destination = 4

	ctaProtocol        = 1
	ctaSourcePort      = 2
	ctaDestinationPort = 3
)

// trackedCount is the number of tracked connections of a namespace. There is no such setting
// without connection tracking, and a request would load it.
const trackedCount = "net/netfilter/nf_conntrack_count"

// Bits of filters: which parts of a tuple they compare.
const (
	filterSource = 1 << iota
	filterDestination
	_ // zone
	filterProtocol
	filterSourcePort
	filterDestinationPort
)

// filterWorth is the number of connections from which one more filtered listing costs less than a
// listing of all: each walks the hash table of all namespaces.
const filterWorth = 8192

// filterLimit bounds the filtered listings of one request.
const filterLimit = 4

// DeleteFlows deletes those tracked connections that stale selects.
func (k *Kernel) DeleteFlows(ns kernel.NS, stale func(kernel.Flow) bool, like ...kernel.Flow) (deleted int, err error) {
	err = k.in(ns, "delete tracked connections", func(n *namespace) error {
		deleted, err = n.deleteFlows(stale, like)
		return err
	})
	return deleted, err
}

func (n *namespace) deleteFlows(stale func(kernel.Flow) bool, like []kernel.Flow) (deleted int, err error) {
	var c *conn
	filters := []kernel.Flow{{}} // lists all
	if err := n.within(func() error {
		count, err := readFile(trackedCount)
		if tracked, _ := strconv.Atoi(count); len(like) > 0 && len(like) <= filterLimit && tracked >= (len(like)-1)*filterWorth {
			filters = like
		}
		switch {
		case errors.Is(err, unix.ENOENT), count == "0":
			return nil
		case err != nil:
			return err
		}
		c, err = dial(unix.NETLINK_NETFILTER)
		return err
	}); err != nil || c == nil {
		return 0, err
	}
	defer c.close()
	buf := n.pool.Get().(*[bufferSize]byte)
	defer n.pool.Put(buf)
	var requests []*message
	for _, filter := range filters {
		// A kernel before Linux 5.8 ignores the filter.
		some, err := staleFlows(c, buf[:], filter, func(f kernel.Flow) bool { return f.LikeAny(like) && stale(f) })
		if err != nil {
			return 0, err
		}
		requests = append(requests, some...)
	}
	for len(requests) > 0 {
		some := requests[:min(len(requests), batchSize)]
		requests = requests[len(some):]
		n.writes.add(len(some))
		errs, err := c.batch(some, buf[:], nil)
		if err != nil {
			return deleted, err
		}
		for _, err := range errs {
			switch {
			case err == nil:
				deleted++
			case !errors.Is(err, unix.ENOENT): // it has ended meanwhile
				return deleted, refused(err)
			}
		}
	}
	return deleted, nil
}

// staleFlows returns the requests that delete the flows like filter that stale selects. A listing
// that was interrupted by changes may lack some that came meanwhile, which are not stale.
func staleFlows(c *conn, buf []byte, filter kernel.Flow, stale func(kernel.Flow) bool) (requests []*message, err error) {
	list := listing(filter)
	err = c.acknowledged(list, buf, func(_ uint16, body []byte) {
		if len(body) < sizeofNfgenmsg {
			return
		}
		if f, ok := parseFlow(body[sizeofNfgenmsg:]); ok && stale(f) {
			requests = append(requests, deletion(body[0], body[sizeofNfgenmsg:]))
		}
	})
	if errors.Is(err, errInterrupted) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("list tracked connections: %w", refused(err))
	}
	return requests, nil
}

// listing lists the flows like a pattern. A pattern without an address, which names no family, lists
// all. A flow that ends meanwhile, or is like two patterns, is deleted at most once.
func listing(p kernel.Flow) *message {
	m := newMessage(getFlow, unix.NLM_F_DUMP)
	family := uint8(unix.AF_UNSPEC)
	for _, at := range []netip.AddrPort{p.Original.Source, p.Original.Destination, p.Reply.Source, p.Reply.Destination} {
		switch {
		case at.Addr().Is4():
			family = unix.AF_INET
		case at.Addr().Is6():
			family = unix.AF_INET6
		}
	}
	m.nfgen(family)
	if family == unix.AF_UNSPEC {
		return m
	}
	orig, reply := m.tuple(ctaTupleOrig, p.Protocol, p.Original), m.tuple(ctaTupleReply, 0, p.Reply)
	filter := m.open(ctaFilter)
	m.u32(ctaFilterOrig, orig)
	m.u32(ctaFilterReply, reply)
	m.close(filter)
	return m
}

// tuple adds what a pattern specifies of a tuple, and returns the bits of its parts. Ports can be
// compared only with a protocol.
func (m *message) tuple(typ int, protocol uint8, t kernel.Tuple) (parts uint32) {
	whole := m.open(typ)
	addresses := m.open(ctaTupleIP)
	for _, end := range []struct {
		at     netip.AddrPort
		v4, v6 int
		part   uint32
	}{{t.Source, ctaV4Source, ctaV6Source, filterSource}, {t.Destination, ctaV4Destination, ctaV6Destination, filterDestination}} {
		if a := end.at.Addr(); a.IsValid() && !a.IsUnspecified() {
			m.addr(map[bool]int{true: end.v4, false: end.v6}[a.Is4()], a)
			parts |= end.part
		}
	}
	m.close(addresses)
	if protocol != 0 {
		proto := m.open(ctaTupleProto)
		m.u8(ctaProtocol, protocol)
		parts |= filterProtocol
		if port := t.Source.Port(); port != 0 {
			m.be16(ctaSourcePort, port)
			parts |= filterSourcePort
		}
		if port := t.Destination.Port(); port != 0 {
			m.be16(ctaDestinationPort, port)
			parts |= filterDestinationPort
		}
		m.close(proto)
	}
	m.close(whole)
	return parts
}

// nfgen adds the header of netfilter messages (struct nfgenmsg).
func (m *message) nfgen(family uint8) { m.b = append(m.b, family, unix.NFNETLINK_V0, 0, 0) }

// deletion deletes the very flow that was listed: by its addresses, its zone and its id.
func deletion(family uint8, attrs []byte) *message {
	m := newMessage(deleteFlow, 0)
	m.nfgen(family)
	for typ, v := range attributes(attrs) {
		switch typ {
		case ctaTupleOrig:
			m.bytes(typ|nested, bytes.Clone(v))
		case ctaZone, ctaID:
			m.bytes(typ, v)
		}
	}
	return m
}

func parseFlow(attrs []byte) (f kernel.Flow, ok bool) {
	for typ, v := range attributes(attrs) {
		switch typ {
		case ctaTupleOrig:
			f.Original, f.Protocol = parseTuple(v)
		case ctaTupleReply:
			f.Reply, _ = parseTuple(v)
		}
	}
	return f, f.Original.Source.IsValid() && f.Reply.Source.IsValid()
}

func parseTuple(b []byte) (t kernel.Tuple, protocol uint8) {
	var from, to netip.Addr
	var fromPort, toPort uint16
	for typ, v := range attributes(b) {
		for part, v := range attributes(v) {
			switch {
			case typ == ctaTupleIP && (part == ctaV4Source || part == ctaV6Source):
				from, _ = netip.AddrFromSlice(v)
			case typ == ctaTupleIP && (part == ctaV4Destination || part == ctaV6Destination):
				to, _ = netip.AddrFromSlice(v)
			case typ == ctaTupleProto && part == ctaProtocol && len(v) == 1:
				protocol = v[0]
			case typ == ctaTupleProto && part == ctaSourcePort && len(v) == 2:
				fromPort = binary.BigEndian.Uint16(v)
			case typ == ctaTupleProto && part == ctaDestinationPort && len(v) == 2:
				toPort = binary.BigEndian.Uint16(v)
			}
		}
	}
	return kernel.Tuple{Source: netip.AddrPortFrom(from, fromPort), Destination: netip.AddrPortFrom(to, toPort)}, protocol
}
