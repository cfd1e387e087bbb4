package kernel

import "net/netip"

// Rules are those of policy routing.
type Rules interface {
	// Rules of policy routing of both families.
	Rules(ns NS) ([]Rule, error)
	// AddRule never makes a second one: a rule that says the same and is of the same
	// protocol is ErrExist. Before Linux 4.17 any that says the same is.
	AddRule(ns NS, r Rule) error
	// DeleteRule removes the rule that says the same and is of the same protocol.
	DeleteRule(ns NS, r Rule) error
}

// Rule says which table packets are routed by. All that it says is its identity.
type Rule struct {
	IPv6     bool
	Priority uint32
	From, To netip.Prefix // the zero prefix: any
	Mark     uint32
	Mask     uint32 // 0: the mark does not count
	Iif, Oif string // names in the kernel
	Table    uint32 // 0 unless Action is lookup
	Action   string // "lookup", "blackhole", …
	Protocol uint8  // who made it, as that of a route does; 0 unknown (Linux 4.17)
	// More: it says something that is not here, such as a range of ports.
	More bool
}
