package netlink

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Kinds and attributes of encapsulation, see linux/lwtunnel.h and linux/mpls_iptunnel.h. Those
// of IPv4 and IPv6 say the same under the same numbers.
const (
	encapMPLS, encapIP, encapIP6 = 1, 2, 4

	encapID, encapDst, encapSrc, encapTTL, encapTOS, encapFlags, encapPad = 1, 2, 3, 4, 5, 6, 7
	mplsLabels, mplsTTL                                                   = 1, 2

	// Flags: the outer packet bears a checksum, a gre the number of the tunnel.
	encapChecksum, encapKey = 0x1, 0x4
)

// addEncap adds what a way puts packets into, whose kind and contents have these numbers.
func addEncap(m *message, kindType, contents int, e kernel.Encap) error {
	if e == (kernel.Encap{}) {
		return nil
	}
	if e.More {
		return fmt.Errorf("no encapsulation of ours: %w", unix.EINVAL)
	}
	kind := uint16(encapIP)
	switch {
	case e.Labels != "":
		kind = encapMPLS
	case e.Dst.Is6():
		kind = encapIP6
	}
	m.u16(kindType, kind)
	at := m.open(contents)
	defer m.close(at)
	if kind == encapMPLS {
		return addLabels(m, e)
	}
	m.bytes(encapID, append([]byte{0, 0, 0, 0}, byte(e.ID>>24), byte(e.ID>>16), byte(e.ID>>8), byte(e.ID)))
	for typ, end := range map[int]netip.Addr{encapDst: e.Dst, encapSrc: e.Src} {
		switch {
		case !end.IsValid():
		case end.Is6() != e.Dst.Is6():
			return fmt.Errorf("%s and %s are of two families: %w", e.Src, e.Dst, unix.EINVAL)
		default:
			m.addr(typ, end)
		}
	}
	m.u8(encapTTL, e.TTL)
	m.u8(encapTOS, e.TOS)
	var flags uint16
	if e.ID != 0 {
		flags |= encapKey
	}
	if e.Checksum {
		flags |= encapChecksum
	}
	m.be16(encapFlags, flags)
	return nil
}

// addLabels adds a stack of MPLS: 20 bits of the label, and one that marks the last.
func addLabels(m *message, e kernel.Encap) error {
	var stack []byte
	for text := range strings.SplitSeq(e.Labels, "/") {
		n, err := strconv.ParseUint(text, 10, 20)
		if err != nil {
			return fmt.Errorf("%q is no label of MPLS: %w", text, unix.EINVAL)
		}
		stack = append(stack, byte(n>>12), byte(n>>4), byte(n<<4), 0)
	}
	stack[len(stack)-2] |= 1
	m.bytes(mplsLabels, stack)
	if e.TTL != 0 {
		m.u8(mplsTTL, e.TTL)
	}
	return nil
}

// parseEncap reads what a way puts packets into.
func parseEncap(kind uint16, b []byte) (e kernel.Encap) {
	switch kind {
	case 0:
		return e
	case encapMPLS:
		return parseLabels(b)
	case encapIP, encapIP6:
	default:
		return kernel.Encap{More: true}
	}
	flags := uint16(0)
	for typ, v := range attributes(b) {
		switch typ {
		case encapID:
			e.More = e.More || len(v) != 8 || !zero(v[:4])
			e.ID = asBE32(v[min(4, len(v)):])
		case encapDst:
			e.Dst = asAddr(v)
		case encapSrc:
			e.Src = given(asAddr(v))
		case encapTTL:
			e.TTL = asU8(v)
		case encapTOS:
			e.TOS = asU8(v)
		case encapFlags:
			flags = asBE16(v)
		case encapPad:
		default:
			e.More = true // options of vxlan, geneve or erspan
		}
	}
	e.Checksum = flags&encapChecksum != 0
	e.More = e.More || flags&^(encapChecksum|encapKey) != 0 || (flags&encapKey != 0) != (e.ID != 0)
	return e
}

func parseLabels(b []byte) (e kernel.Encap) {
	for typ, v := range attributes(b) {
		switch typ {
		case mplsLabels:
			var labels []string
			for entry := range slices.Chunk(v, 4) {
				labels = append(labels, strconv.Itoa(int(asBE32(entry)>>12)))
			}
			e.Labels = strings.Join(labels, "/")
		case mplsTTL:
			e.TTL = asU8(v)
		}
	}
	return e
}
