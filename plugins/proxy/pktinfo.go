package proxy

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// tellDestination has the kernel tell with every datagram which address of ours it came
// to. An answer from another one would be no answer.
func tellDestination(fd, family int) error {
	if family == unix.AF_INET6 {
		return unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1)
	}
	return unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_PKTINFO, 1)
}

// destination is the address that a datagram came to, and what has to go with an answer
// so that it comes from there. The interface is left to the routes.
func destination(oob []byte) (to netip.Addr, reply []byte) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return to, nil
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			// The local address, not that of the header: of a broadcast it differs.
			info := &unix.Inet4Pktinfo{Spec_dst: [4]byte(m.Data[4:8])}
			return netip.AddrFrom4(info.Spec_dst), unix.PktInfo4(info)
		case m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			info := &unix.Inet6Pktinfo{Addr: [16]byte(m.Data[:16])}
			to = netip.AddrFrom16(info.Addr)
			if to.IsLinkLocalUnicast() { // is only one with its link
				info.Ifindex = binary.NativeEndian.Uint32(m.Data[16:20])
			}
			if to.IsMulticast() {
				return to, nil
			}
			return to, unix.PktInfo6(info)
		}
	}
	return to, nil
}
