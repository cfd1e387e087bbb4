package kerneltest

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// implicitNull is the label that says that there is none.
const implicitNull = 3

func checkEncap(e kernel.Encap) error {
	if e.More {
		return fmt.Errorf("no encapsulation of ours: %w", syscall.EINVAL)
	}
	if e.Labels == "" {
		return nil
	}
	for text := range strings.SplitSeq(e.Labels, "/") {
		if n, err := strconv.ParseUint(text, 10, 20); err != nil || n == implicitNull {
			return fmt.Errorf("%q is no label of MPLS: %w", text, syscall.EINVAL)
		}
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
