package kind

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// EncapOf is what a valid value says of the packets that a way puts packets into.
func EncapOf(v *models.Encap) kernel.Encap {
	dst, _ := netip.ParseAddr(v.GetDst())
	src, _ := netip.ParseAddr(v.GetSrc())
	return kernel.Encap{ID: v.GetId(), Dst: dst, Src: src, TTL: uint8(v.GetTtl()), TOS: uint8(v.GetTos()), Checksum: v.GetChecksum(), Labels: v.LabelText()}
}

// EncapFrom is what the kernel shows as a value; of what no value says, one that none can be.
func EncapFrom(e kernel.Encap) *models.Encap {
	switch {
	case e == kernel.Encap{}:
		return nil
	case e.More:
		return &models.Encap{Dst: "?"}
	}
	v := &models.Encap{Id: e.ID, Ttl: uint32(e.TTL), Tos: uint32(e.TOS), Checksum: e.Checksum}
	for text := range strings.SplitSeq(e.Labels, "/") {
		if n, err := strconv.ParseUint(text, 10, 32); err == nil {
			v.Labels = append(v.Labels, uint32(n))
		}
	}
	if e.Dst.IsValid() {
		v.Dst = e.Dst.String()
	}
	if e.Src.IsValid() {
		v.Src = e.Src.String()
	}
	return v
}

// Encapsulated says of an error what a kernel that puts no packets into others lacks: it is not
// tried again.
func Encapsulated(encap bool, err error) error {
	if !encap || !errors.Is(err, kernel.ErrUnsupported) {
		return err
	}
	return scheduler.Unsupported(fmt.Errorf("%w; does it have this encapsulation (CONFIG_LWTUNNEL, of labels modprobe mpls_iptunnel)?", err))
}
