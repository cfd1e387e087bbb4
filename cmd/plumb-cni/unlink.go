package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// inNamespace runs f on a thread that is in a network namespace and ends there.
func inNamespace(fd uintptr, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if _, _, e := syscall.RawSyscall(sysSetns, fd, syscall.CLONE_NEWNET, 0); e != 0 {
			done <- fmt.Errorf("enter the namespace: %w", e)
			return
		}
		done <- f()
	}()
	return <-done
}

// The kernel's numbers that package syscall lacks.
const (
	iflaIfname  = 3
	iflaIfalias = 20
	ourMark     = "plumb:"
)

// removeOurs removes an interface that bears the mark of an agent. One that does
// not is somebody else's, and stays.
func removeOurs(ifname string) error {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 5}); err != nil {
		return err
	}
	index, alias, err := findLink(fd, ifname)
	switch {
	case errors.Is(err, syscall.ENODEV):
		return nil
	case err != nil:
		return err
	case !strings.HasPrefix(alias, ourMark):
		return fmt.Errorf("it bears no mark of Plumb, and stays")
	}
	_, err = exchange(fd, syscall.RTM_DELLINK, syscall.NLM_F_ACK, index, nil)
	if errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}

// isThere fails if there is no such interface, or it cannot be told.
func isThere(ifname string) error {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 5}); err != nil {
		return err
	}
	_, _, err = findLink(fd, ifname)
	return err
}

func findLink(fd int, ifname string) (index int32, alias string, err error) {
	attr := make([]byte, syscall.SizeofRtAttr, 64)
	attr = append(append(attr, ifname...), 0)
	binary.NativeEndian.PutUint16(attr[0:], uint16(len(attr)))
	binary.NativeEndian.PutUint16(attr[2:], iflaIfname)
	for len(attr)%4 != 0 {
		attr = append(attr, 0)
	}
	m, err := exchange(fd, syscall.RTM_GETLINK, 0, 0, attr)
	if err != nil {
		return 0, "", err
	}
	if m == nil || len(m.Data) < syscall.SizeofIfInfomsg {
		return 0, "", syscall.EBADMSG
	}
	index = int32(binary.NativeEndian.Uint32(m.Data[4:]))
	attrs, err := syscall.ParseNetlinkRouteAttr(m)
	for _, a := range attrs {
		if a.Attr.Type == iflaIfalias {
			alias = strings.TrimRight(string(a.Value), "\x00")
		}
	}
	return index, alias, err
}

// exchange sends one request about a link and returns its answer, nil for a mere
// acknowledgement.
func exchange(fd int, what, flags uint16, index int32, attrs []byte) (*syscall.NetlinkMessage, error) {
	msg := make([]byte, syscall.NLMSG_HDRLEN+syscall.SizeofIfInfomsg, 128)
	msg = append(msg, attrs...)
	*(*syscall.NlMsghdr)(unsafe.Pointer(&msg[0])) = syscall.NlMsghdr{
		Len: uint32(len(msg)), Type: what, Flags: syscall.NLM_F_REQUEST | flags, Seq: 1}
	binary.NativeEndian.PutUint32(msg[syscall.NLMSG_HDRLEN+4:], uint32(index))
	if err := syscall.Sendto(fd, msg, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return nil, err
	}
	buf := make([]byte, 32<<10)
	n, _, err := syscall.Recvfrom(fd, buf, 0)
	if err != nil {
		return nil, err
	}
	answers, err := syscall.ParseNetlinkMessage(buf[:n])
	if err != nil || len(answers) == 0 {
		return nil, errors.Join(err, syscall.EBADMSG)
	}
	m := answers[0]
	if m.Header.Type != syscall.NLMSG_ERROR {
		return &m, nil
	}
	if len(m.Data) < 4 {
		return nil, syscall.EBADMSG
	}
	if e := -int32(binary.NativeEndian.Uint32(m.Data)); e != 0 {
		return nil, syscall.Errno(e)
	}
	return nil, nil
}
