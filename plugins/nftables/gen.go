package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// The request for the generation, which golang.org/x/sys names in part.
const (
	getGeneration = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN
	generationID  = 1 // NFTA_GEN_ID
	headers       = unix.SizeofNlMsghdr + 4
)

// Generation asks the kernel how often the tables of a namespace have been changed:
// nft is not started to hear that nothing has happened.
func (t *Tables) Generation(ns kernel.NS) (gen uint32, err error) {
	err = t.namespaces.Within(ns, 0, func() (err error) {
		gen, err = generation()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read the generation of the tables: %w", err)
	}
	return gen, nil
}

func generation() (uint32, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return 0, err
	}
	request := binary.NativeEndian.AppendUint32(nil, headers)
	request = binary.NativeEndian.AppendUint16(request, getGeneration)
	request = binary.NativeEndian.AppendUint16(request, unix.NLM_F_REQUEST)
	request = append(request, make([]byte, 8+4)...) // sequence, port; family, version, resource
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, err
	}
	return readGeneration(answer[:n])
}

// readGeneration finds the attribute in the kernel's answer.
func readGeneration(answer []byte) (uint32, error) {
	if len(answer) < headers {
		return 0, errors.New("the kernel's answer is too short")
	}
	if binary.NativeEndian.Uint16(answer[4:]) == unix.NLMSG_ERROR {
		return 0, unix.Errno(-int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])))
	}
	for rest := answer[headers:]; len(rest) >= 8; {
		size := int(binary.NativeEndian.Uint16(rest))
		if binary.NativeEndian.Uint16(rest[2:])&^unix.NLA_F_NESTED == generationID {
			return binary.BigEndian.Uint32(rest[4:]), nil
		}
		rest = rest[min(len(rest), max((size+3)&^3, 4)):]
	}
	return 0, errors.New("the kernel's answer has no generation")
}
