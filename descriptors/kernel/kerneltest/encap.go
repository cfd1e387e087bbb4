package kerneltest

import (
	"fmt"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// checkEncap: there is no MPLS here.
func checkEncap(e kernel.Encap) error {
	switch {
	case e.More:
		return fmt.Errorf("no encapsulation of ours: %w", syscall.EINVAL)
	case e.Labels != "":
		return refused(syscall.EOPNOTSUPP)
	}
	return nil
}

// encapText is what ip(8) is told.
func encapText(e kernel.Encap) string {
	option := func(name string, v uint32) string {
		if v == 0 {
			return ""
		}
		return fmt.Sprintf(" %s %d", name, v)
	}
	switch {
	case e == kernel.Encap{}:
		return ""
	case e.Labels != "":
		return "encap mpls " + e.Labels + option("ttl", uint32(e.TTL))
	}
	tool, ttl, tos, flags, src := "ip", "ttl", "tos", "", ""
	if e.Dst.Is6() {
		tool, ttl, tos = "ip6", "hoplimit", "tc"
	}
	if e.ID != 0 {
		flags = " key"
	}
	if e.Checksum {
		flags += " csum"
	}
	if e.Src.IsValid() {
		src = " src " + e.Src.String()
	}
	return "encap " + tool + option("id", e.ID) + src + " dst " + e.Dst.String() +
		option(ttl, uint32(e.TTL)) + option(tos, uint32(e.TOS)) + flags
}

// encap reads what packets are put into.
func (c *request) encap() (e kernel.Encap) {
	if c.next() == "mpls" {
		e.Labels = c.next()
	}
	for len(c.words) > 0 {
		switch c.words[0] {
		case "id":
			c.next()
			e.ID = uint32(c.number())
		case "src":
			c.next()
			e.Src = c.addr()
		case "dst":
			c.next()
			e.Dst = c.addr()
		case "ttl", "hoplimit":
			c.next()
			e.TTL = uint8(c.number())
		case "tos", "tc":
			c.next()
			e.TOS = uint8(c.number())
		case "csum":
			c.next()
			e.Checksum = true
		case "key":
			c.next()
		default:
			return e
		}
	}
	return e
}
