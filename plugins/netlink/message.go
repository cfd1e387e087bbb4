package netlink

import (
	"encoding/binary"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"
)

// native is the byte order of netlink headers and most attributes.
var native = binary.NativeEndian

// Attribute types that golang.org/x/sys/unix does not name.
const (
	vethInfoPeer = 1       // VETH_INFO_PEER
	ifaProto     = 0xb     // IFA_PROTO
	skipStats    = 1 << 3  // RTEXT_FILTER_SKIP_STATS
	attrTypeMask = 0x3fff  // without NLA_F_NESTED and NLA_F_NET_BYTEORDER
	nested       = 1 << 15 // NLA_F_NESTED
	forever      = ^uint32(0)
)

// message is a netlink request under construction. Its header is completed by
// the conn that sends it.
type message struct{ b []byte }

func newMessage(typ, flags int) *message {
	m := &message{b: make([]byte, unix.SizeofNlMsghdr, 256)}
	native.PutUint16(m.b[4:], uint16(typ))
	native.PutUint16(m.b[6:], uint16(flags)|unix.NLM_F_REQUEST)
	return m
}

func (m *message) typ() uint16   { return native.Uint16(m.b[4:]) }
func (m *message) flags() uint16 { return native.Uint16(m.b[6:]) }

func (m *message) set(flags uint16) { native.PutUint16(m.b[6:], m.flags()|flags) }

// seal writes length, flags and sequence number.
func (m *message) seal(flags uint16, seq uint32) {
	native.PutUint32(m.b[0:], uint32(len(m.b)))
	m.set(flags)
	native.PutUint32(m.b[8:], seq)
}

// link adds the header of link messages (struct ifinfomsg).
func (m *message) link(family uint8, index int, flags, change uint32) {
	m.b = append(m.b, family, 0, 0, 0)
	m.b = native.AppendUint32(m.b, uint32(int32(index)))
	m.b = native.AppendUint32(m.b, flags)
	m.b = native.AppendUint32(m.b, change)
}

func (m *message) head(typ, size int) {
	m.b = native.AppendUint16(m.b, uint16(unix.SizeofRtAttr+size))
	m.b = native.AppendUint16(m.b, uint16(typ))
}

func (m *message) pad() {
	for len(m.b)%unix.NLMSG_ALIGNTO != 0 {
		m.b = append(m.b, 0)
	}
}

func (m *message) bytes(typ int, v []byte) {
	m.head(typ, len(v))
	m.b = append(m.b, v...)
	m.pad()
}

// str adds a string with its closing zero.
func (m *message) str(typ int, v string) {
	m.head(typ, len(v)+1)
	m.b = append(append(m.b, v...), 0)
	m.pad()
}

func (m *message) u8(typ int, v uint8) {
	m.head(typ, 1)
	m.b = append(m.b, v)
	m.pad()
}

func (m *message) u16(typ int, v uint16) {
	m.head(typ, 2)
	m.b = native.AppendUint16(m.b, v)
	m.pad()
}

func (m *message) be16(typ int, v uint16) {
	m.head(typ, 2)
	m.b = binary.BigEndian.AppendUint16(m.b, v)
	m.pad()
}

func (m *message) u32(typ int, v uint32) {
	m.head(typ, 4)
	m.b = native.AppendUint32(m.b, v)
}

func (m *message) u64(typ int, v uint64) {
	m.head(typ, 8)
	m.b = native.AppendUint64(m.b, v)
}

func (m *message) be32(typ int, v uint32) {
	m.head(typ, 4)
	m.b = binary.BigEndian.AppendUint32(m.b, v)
}

func (m *message) addr(typ int, a netip.Addr) {
	a = a.Unmap()
	if a.Is4() {
		v := a.As4()
		m.bytes(typ, v[:])
		return
	}
	v := a.As16()
	m.bytes(typ, v[:])
}

// open begins a nested attribute, close ends it.
func (m *message) open(typ int) int {
	m.head(typ|nested, 0)
	return len(m.b) - unix.SizeofRtAttr
}

func (m *message) close(start int) {
	native.PutUint16(m.b[start:], uint16(len(m.b)-start))
}

// attributes walks the attributes in b; it ends at the first that is cut off.
func attributes(b []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for len(b) >= unix.SizeofRtAttr {
			size := int(native.Uint16(b))
			if size < unix.SizeofRtAttr || size > len(b) {
				return
			}
			if !yield(int(native.Uint16(b[2:])&attrTypeMask), b[unix.SizeofRtAttr:size]) {
				return
			}
			b = b[min(align(size), len(b)):]
		}
	}
}

func align(n int) int { return (n + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }

// The readers below take whatever length an attribute has: one that is too
// short reads as zero.

func asU8(b []byte) uint8 {
	if len(b) < 1 {
		return 0
	}
	return b[0]
}

func asU16(b []byte) uint16 {
	if len(b) < 2 {
		return 0
	}
	return native.Uint16(b)
}

func asBE16(b []byte) uint16 {
	if len(b) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(b)
}

func asBE32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

func asU32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return native.Uint32(b)
}

func asU64(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return native.Uint64(b)
}

func asString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

func asAddr(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}
