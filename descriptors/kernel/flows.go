package kernel

import "net/netip"

// Flows are the connections that a namespace tracks, with their translated addresses: the kernel
// decides on translation for the first packet of a connection, and keeps to it as long as packets
// come. There are no events about them.
type Flows interface {
	// DeleteFlows deletes the tracked connections for which stale returns true, and returns how
	// many. The next packet of such a connection begins a new one. A kernel without connection
	// tracking has none.
	DeleteFlows(ns NS, stale func(Flow) bool) (deleted int, err error)
}

// Flow is a tracked connection.
type Flow struct {
	// Protocol is its number in IP headers.
	Protocol uint8
	// Original is the direction of the first packet, before translation. Reply is the direction
	// of the answers: its source is the destination after translation, its destination the source
	// after translation.
	Original, Reply Tuple
}

// Tuple is one direction of a connection. Ports are 0 for protocols without ports.
type Tuple struct{ Source, Destination netip.AddrPort }

// Involves reports whether an address is part of the connection, before or after translation.
func (f Flow) Involves(a netip.Addr) bool {
	for _, at := range []netip.AddrPort{f.Original.Source, f.Original.Destination, f.Reply.Source, f.Reply.Destination} {
		if at.Addr() == a {
			return true
		}
	}
	return false
}

// SourceTranslated reports whether the source is translated.
func (f Flow) SourceTranslated() bool { return f.Original.Source.Addr() != f.Reply.Destination.Addr() }
