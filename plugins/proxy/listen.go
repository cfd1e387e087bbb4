package proxy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// backlog is how many connections wait at most; the kernel bounds it by net.core.somaxconn.
const backlog = 4096

// listen makes what a proxy listens at, on a thread of its namespace that is not used for
// anything else afterwards.
func listen(p kernel.Proxy) (*os.File, kernel.SocketFile, error) {
	end := p.Listen
	if end.Protocol == "unix" {
		return listenUnix(p)
	}
	a, err := netip.ParseAddrPort(end.Address)
	if err != nil {
		return nil, kernel.SocketFile{}, err
	}
	f, err := listenIP(end.Protocol, a)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		taken := &kernel.TakenError{Address: end.Protocol + " " + end.Address, By: "somebody"}
		holder(end.Protocol, a, taken)
		err = taken
	case errors.Is(err, unix.EADDRNOTAVAIL):
		err = fmt.Errorf("%s is no address of the namespace, or not yet", a.Addr())
	case err != nil:
		err = fmt.Errorf("listen at %s %s: %w", end.Protocol, end.Address, err)
	}
	return f, kernel.SocketFile{}, err
}

func listenIP(protocol string, a netip.AddrPort) (_ *os.File, err error) {
	family, kind := unix.AF_INET, unix.SOCK_STREAM
	var at unix.Sockaddr = &unix.SockaddrInet4{Port: int(a.Port()), Addr: as4(a.Addr())}
	if a.Addr().Is6() {
		family, at = unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	}
	if protocol == "udp" {
		kind = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if family == unix.AF_INET6 { // the setting of the namespace must not decide
		if err := unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_V6ONLY, 0); err != nil {
			return nil, err
		}
	}
	if protocol == "udp" {
		// Before anything can come in: a datagram that waits already tells nothing.
		if err := tellDestination(fd, family); err != nil {
			return nil, err
		}
	} else if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return nil, err // connections of an earlier proxy may linger
	}
	if err := unix.Bind(fd, at); err != nil {
		return nil, err
	}
	if protocol == "tcp" {
		if err := unix.Listen(fd, backlog); err != nil {
			return nil, err
		}
	}
	return os.NewFile(uintptr(fd), "listen"), nil
}

// listenUnix makes a socket with its mode from birth on.
func listenUnix(p kernel.Proxy) (_ *os.File, made kernel.SocketFile, err error) {
	path := p.Listen.Address
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, made, err
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
			err = fmt.Errorf("listen at %s: %w", path, err)
		}
	}()
	file := strings.HasPrefix(path, "/")
	if file {
		// The file is born with the mode of the socket, less the mask, which is this
		// thread's alone from here on.
		if err := errors.Join(unix.Unshare(unix.CLONE_FS), unix.Fchmod(fd, p.Mode)); err != nil {
			return nil, made, err
		}
		unix.Umask(0)
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	if file && errors.Is(err, unix.EADDRINUSE) && leftover(path, p.Since) && os.Remove(path) == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, made, &kernel.TakenError{Address: path, By: whoHas(path)}
	case errors.Is(err, unix.ENOENT):
		return nil, made, fmt.Errorf("the directory %s is not there", filepath.Dir(path))
	case err != nil:
		return nil, made, err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return nil, made, err
	}
	if file {
		st, err := socketAt(path)
		if err != nil {
			return nil, made, err
		}
		made = kernel.SocketFile{Path: path, Dev: st.Dev, Inode: st.Ino}
	}
	return os.NewFile(uintptr(fd), "listen"), made, nil
}

// socketAt looks at a socket file.
func socketAt(path string) (st unix.Stat_t, err error) {
	if err = unix.Lstat(path, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		err = unix.ENOTSOCK
	}
	return st, err
}

// leftover reports whether a socket file that nobody serves was made after the ledger
// announced it: then a proxy of ours was to be made there when the agent was cut short.
func leftover(path string, since time.Time) bool {
	st, err := socketAt(path)
	return err == nil && !since.IsZero() && st.Uid == uint32(os.Geteuid()) &&
		!time.Unix(st.Ctim.Unix()).Before(since.Add(-clockGrain)) && dead(path)
}

// clockGrain is by how much times of files may be behind the clock.
const clockGrain = 20 * time.Millisecond

// dead reports whether nobody listens at a socket file.
func dead(path string) bool {
	fd, _, err := connect(path)
	if err == nil {
		unix.Close(fd)
	}
	return errors.Is(err, unix.ECONNREFUSED)
}

// connect connects to a socket file without waiting, and tells who listens there.
func connect(path string) (fd, pid int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, 0, err
	}
	if err = unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		return 0, 0, err
	}
	if cred, bad := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); bad == nil {
		pid = int(cred.Pid)
	}
	return fd, pid, nil
}

// whoHas tells what is at the path of a unix socket.
func whoHas(path string) string {
	if strings.HasPrefix(path, "/") {
		if _, err := socketAt(path); err != nil {
			if errors.Is(err, unix.ENOTSOCK) {
				return "a file that is no socket"
			}
			return "somebody"
		}
	}
	fd, pid, err := connect(path)
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return "a socket file at which nobody listens any more; remove it"
	case err != nil || pid == 0:
		return "another process"
	}
	unix.Close(fd)
	return processName(pid)
}

func processName(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return fmt.Sprintf("process %d", pid)
	}
	return fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(name)))
}

// Listener names the process that has a port at an address in the caller's network namespace,
// "" if none has: one that listens, or receives datagrams from anybody. The unspecified address
// stands for all addresses of its family, that of IPv6 for those of both.
func Listener(protocol string, a netip.AddrPort) string {
	sockets := socketsAt(protocol, a)
	maps.DeleteFunc(sockets, func(_ string, connected bool) bool { return connected })
	switch pid := ownerOf(sockets); {
	case len(sockets) == 0:
		return ""
	case pid == 0:
		return "a process of the host"
	default:
		return processName(pid)
	}
}

// socketsAt returns the sockets of the thread's namespace that have an address, as links in
// /proc/PID/fd name them, and whether they are connected to a peer.
func socketsAt(protocol string, a netip.AddrPort) map[string]bool {
	sockets := map[string]bool{}
	for _, file := range []string{protocol, protocol + "6"} {
		f, err := os.Open("/proc/thread-self/net/" + file)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if inode := inodeOf(lines.Text(), protocol, a); inode != "" {
				const established = "01"
				sockets["socket:["+inode+"]"] = strings.Fields(lines.Text())[3] == established
			}
		}
		f.Close()
	}
	return sockets
}

// holder finds out who has an address of the thread's namespace.
func holder(protocol string, a netip.AddrPort, taken *kernel.TakenError) {
	pid := ownerOf(socketsAt(protocol, a))
	if pid == 0 {
		return
	}
	taken.By = processName(pid)
	if args := arguments(pid); len(args) == 5 && args[1] == command {
		taken.Mark = args[2]
	}
}

// inodeOf is the socket of a line of /proc/net/tcp or udp, if it is in the way of a.
func inodeOf(line, protocol string, a netip.AddrPort) string {
	f := strings.Fields(line)
	if len(f) < 10 || protocol == "tcp" && f[3] != "0A" { // 0A listens
		return ""
	}
	at, ok := parseProc(f[1])
	if !ok || at.Port() != a.Port() || at.Addr() != a.Addr() && !covers(at.Addr(), a.Addr()) && !covers(a.Addr(), at.Addr()) {
		return ""
	}
	return f[9]
}

// covers reports whether a socket at the unspecified address all receives what is sent to a.
func covers(all, a netip.Addr) bool {
	return all == netip.IPv6Unspecified() || all == netip.IPv4Unspecified() && a.Is4()
}

// parseProc reads an address as the kernel prints it: words of the machine in hex.
func parseProc(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil || len(host)%8 != 0 {
		return netip.AddrPort{}, false
	}
	var ip []byte
	for ; host != ""; host = host[8:] {
		word, err := strconv.ParseUint(host[:8], 16, 32)
		if err != nil {
			return netip.AddrPort{}, false
		}
		ip = binary.NativeEndian.AppendUint32(ip, uint32(word))
	}
	addr, ok := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok
}

// ownerOf is a process that has one of the sockets open, 0 if none is seen.
func ownerOf(sockets map[string]bool) int {
	if len(sockets) == 0 {
		return 0
	}
	for _, pid := range processes() {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for _, e := range entries {
			if to, err := os.Readlink(dir + "/" + e.Name()); err == nil {
				if _, is := sockets[to]; is {
					return pid
				}
			}
		}
	}
	return 0
}

// as4 is an IPv4 address; of another it is not asked.
func as4(a netip.Addr) (b [4]byte) {
	if a.Is4() {
		b = a.As4()
	}
	return b
}
