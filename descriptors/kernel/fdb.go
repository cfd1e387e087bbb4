package kernel

import "net/netip"

// FDB is the forwarding entries of bridges and vxlans.
type FDB interface {
	// FDB are the forwarding entries of all bridges and vxlans that somebody has set: they
	// do not age, or a daemon keeps them. What is learnt is not among them.
	FDB(ns NS) ([]FDBEntry, error)
	// FDBEntry is the one that somebody has set in the place of e, which is its table, MAC
	// and VLAN, and of the all-zero MAC also the address; ErrNotExist if there is none.
	FDBEntry(ns NS, e FDBEntry) (FDBEntry, error)
	// AddFDBEntry makes an entry, also in the place of one that was learnt. One that
	// somebody has set in its place is ErrExist, also one of a VLAN of the port if e has
	// none: the kernel makes it for all of them.
	AddFDBEntry(ns NS, e FDBEntry) error
	DeleteFDBEntry(ns NS, e FDBEntry) error
}

// FDBEntry says where a bridge or a vxlan sends the frames for a MAC. The kernel keeps no
// protocol with it.
type FDBEntry struct {
	// Table is the link whose entry it is: the bridge, or the vxlan.
	Table int
	MAC   string // lower case; all zero is what a vxlan does with all others
	// Port of the bridge; the bridge moves also what somebody has set when the station
	// speaks at another port. 0 in a vxlan.
	Port int
	// VLAN of the bridge; 0 none.
	VLAN int
	// Address of the other end of a vxlan, else invalid.
	Address netip.Addr
	// Local: the bridge takes these frames itself, such as those for the MAC of a port.
	Local bool
	// Special entries are more than AddFDBEntry makes: of a daemon, to a group, to a port
	// or VNI of their own.
	Special bool
}

// ZeroMAC is the MAC of the entries by which a vxlan floods, and of a bridge without ports.
const ZeroMAC = "00:00:00:00:00:00"

// FDBPlace is what the kernel knows a forwarding entry by within a namespace.
type FDBPlace struct {
	table int
	mac   string
	vlan  int
	flood netip.Addr // only the all-zero MAC has several
}

// Place is where the entry is: of two with the same there can be only one.
func (e FDBEntry) Place() FDBPlace {
	p := FDBPlace{table: e.Table, mac: e.MAC, vlan: e.VLAN}
	if e.MAC == ZeroMAC {
		p.flood = e.Address
	}
	return p
}
