package netlink

import (
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// TestEncapThereAndBack: what is asked for is what is read, also labels, which few kernels have.
func TestEncapThereAndBack(t *testing.T) {
	one, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for _, e := range []kernel.Encap{
		{},
		{Dst: one},
		{ID: 1<<32 - 1, Dst: one, Src: one, TTL: 255, TOS: 255, Checksum: true},
		{ID: 7, Dst: six, Src: six, TTL: 9},
		{Labels: "100"},
		{Labels: "0/16/1048575", TTL: 9},
	} {
		m := newMessage(unix.RTM_NEWROUTE, 0)
		at := len(m.b)
		if err := addEncap(m, unix.RTA_ENCAP_TYPE, unix.RTA_ENCAP, e); err != nil {
			t.Errorf("%+v: %v", e, err)
		}
		var kind uint16
		var within []byte
		for typ, v := range attributes(m.b[at:]) {
			switch typ {
			case unix.RTA_ENCAP_TYPE:
				kind = asU16(v)
			case unix.RTA_ENCAP:
				within = v
			}
		}
		if is := parseEncap(kind, within); is != e {
			t.Errorf("%+v is read as %+v", e, is)
		}
		for n := range within { // whatever a kernel sends
			parseEncap(kind, within[:n])
		}
	}
	for _, e := range []kernel.Encap{{More: true}, {Dst: one, Src: six}, {Labels: "1048576"}, {Labels: "100/"}} {
		if err := addEncap(newMessage(unix.RTM_NEWROUTE, 0), unix.RTA_ENCAP_TYPE, unix.RTA_ENCAP, e); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if e := parseEncap(5, nil); !e.More {
		t.Error("segments of IPv6 are not told")
	}
}
