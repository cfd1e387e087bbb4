package netlink

import (
	"math/rand/v2"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Our sockets have port ids of a range that is this process's own, so that events of our
// own doing are known as such also when the socket is closed. The kernel gives nobody such
// a number who does not ask for it: it gives the number of the process, or a negative one
// (netlink_autobind in net/netlink/af_netlink.c).
const (
	maxProcess = 1 << 22 // PID_MAX_LIMIT in linux/threads.h
	rangeSize  = 1 << 12 // far more than there are sockets at a time
)

var (
	firstPort = maxProcess + rand.Uint32N((1<<31-maxProcess)/rangeSize)*rangeSize
	nextPort  atomic.Uint32
)

func isOwnPort(port uint32) bool { return port-firstPort < rangeSize }

// bind gives a socket the next port that is free in its namespace.
func bind(fd int) (err error) {
	for range rangeSize {
		port := firstPort + nextPort.Add(1)%rangeSize
		if err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: port}); err != unix.EADDRINUSE {
			return err
		}
	}
	return err
}
