package main

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// patience is for how long an echo may take. It is less than the second after which
// the kernel asks again who has an address, so the first packet has to arrive.
const patience = 900 * time.Millisecond

// ping sends one echo request from within a network namespace.
func ping(namespace string, to netip.Addr) error {
	runtime.LockOSThread() // it is not unlocked: the program ends soon
	f, err := os.Open(namespace)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", namespace, err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(patience.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return err
	}
	id := uint16(os.Getpid())
	if err := unix.Sendto(fd, echo(id), 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
		return fmt.Errorf("ping %s: %w", to, err)
	}
	for buf := make([]byte, 1500); ; {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return fmt.Errorf("%s does not answer: %w", to, err)
		}
		if n < 28 || int(buf[0]&0xf)*4+8 > n {
			continue
		}
		reply := buf[int(buf[0]&0xf)*4 : n]
		if reply[0] == 0 && binary.BigEndian.Uint16(reply[4:]) == id {
			return nil
		}
	}
}

// echo is an echo request without data.
func echo(id uint16) []byte {
	p := []byte{8, 0, 0, 0, byte(id >> 8), byte(id), 0, 1}
	sum := uint32(0)
	for i := 0; i < len(p); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	binary.BigEndian.PutUint16(p[2:], ^uint16(sum+sum>>16))
	return p
}
