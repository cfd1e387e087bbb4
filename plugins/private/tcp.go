package private

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// UIDOfTCP returns the user who owns the other end of a connection between two sockets of this
// network namespace, such as one over loopback. It returns an error if that end is not open any
// more, or is in another namespace: the kernel attributes a socket that no process holds to root.
func UIDOfTCP(conn net.Conn) (uid int, err error) {
	local, remote, err := addresses(conn)
	if err != nil {
		return -1, err
	}
	found, err := askDiag(remote, local)
	if err != nil { // a kernel without the module tcp_diag has the same in a file
		var more error
		if found, more = readTable(remote, local); more != nil {
			return -1, fmt.Errorf("find the user of %s: %w", remote, errors.Join(err, more))
		}
	}
	if found.state != established || found.inode == 0 {
		return -1, fmt.Errorf("find the user of %s: no process holds that socket any more", remote)
	}
	return int(found.uid), nil
}

func addresses(conn net.Conn) (local, remote netip.AddrPort, err error) {
	l, ok := conn.LocalAddr().(*net.TCPAddr)
	r, also := conn.RemoteAddr().(*net.TCPAddr)
	if !ok || !also {
		return local, remote, fmt.Errorf("%T is not a TCP connection", conn)
	}
	return unmapped(l.AddrPort()), unmapped(r.AddrPort()), nil
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// established is TCP_ESTABLISHED of the kernel. A socket in any other state may have lost its
// process, and with it its user.
const established = 1

// socket is what the kernel reports of a TCP socket. Inode is 0 if no process holds it.
type socket struct {
	state uint8
	uid   uint32
	inode uint64
}

// What sock_diag(7) defines and package syscall does not.
const (
	sockDiagByFamily = 20
	noCookie         = 0xffffffff
	sizeOfHeader     = syscall.SizeofNlMsghdr
	sizeOfID         = 48
	sizeOfRequest    = sizeOfHeader + 8 + sizeOfID
	sizeOfAnswer     = 4 + sizeOfID + 20
)

// diagTime bounds how long the kernel may take to answer.
const diagTime = time.Second

// askDiag asks the kernel for the socket between two addresses by sock_diag(7).
func askDiag(from, to netip.AddrPort) (socket, error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, syscall.NETLINK_INET_DIAG)
	if err != nil {
		return socket{}, fmt.Errorf("sock_diag: %w", err)
	}
	defer syscall.Close(fd)
	limit := syscall.NsecToTimeval(int64(diagTime))
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit); err != nil {
		return socket{}, fmt.Errorf("sock_diag: %w", err)
	}
	id := sockID(from, to)
	if err := syscall.Sendto(fd, diagRequest(from, id), 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return socket{}, fmt.Errorf("sock_diag: %w", err)
	}
	answer := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, answer, 0)
	if err != nil {
		return socket{}, fmt.Errorf("sock_diag: %w", err)
	}
	return parseDiag(answer[:n], id)
}

// sockID is struct inet_diag_sockid without the interface and the cookie, which say nothing here.
func sockID(from, to netip.AddrPort) []byte {
	id := binary.BigEndian.AppendUint16(nil, from.Port())
	id = binary.BigEndian.AppendUint16(id, to.Port())
	for _, a := range []netip.Addr{from.Addr(), to.Addr()} {
		var field [16]byte
		copy(field[:], a.AsSlice())
		id = append(id, field[:]...)
	}
	return id
}

func diagRequest(from netip.AddrPort, id []byte) []byte {
	family := byte(syscall.AF_INET)
	if from.Addr().Is6() {
		family = syscall.AF_INET6
	}
	out := make([]byte, sizeOfHeader, sizeOfRequest)
	binary.NativeEndian.PutUint32(out, sizeOfRequest)
	binary.NativeEndian.PutUint16(out[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(out[6:], syscall.NLM_F_REQUEST)
	out = append(out, family, syscall.IPPROTO_TCP, 0, 0)
	out = binary.NativeEndian.AppendUint32(out, 1<<established)
	out = append(out, id...)
	for _, field := range []uint32{0, noCookie, noCookie} { // any interface
		out = binary.NativeEndian.AppendUint32(out, field)
	}
	return out
}

func parseDiag(answer, id []byte) (socket, error) {
	messages, err := syscall.ParseNetlinkMessage(answer)
	if err != nil || len(messages) == 0 {
		return socket{}, fmt.Errorf("sock_diag: an answer of %d bytes cannot be read: %w", len(answer), err)
	}
	m := messages[0]
	if m.Header.Type == syscall.NLMSG_ERROR && len(m.Data) >= 4 {
		return socket{}, fmt.Errorf("sock_diag: %w", syscall.Errno(-int32(binary.NativeEndian.Uint32(m.Data))))
	}
	// The kernel may answer with a socket that listens at the address, instead.
	if m.Header.Type != sockDiagByFamily || len(m.Data) < sizeOfAnswer || !slices.Equal(m.Data[4:4+len(id)], id) {
		return socket{}, errors.New("sock_diag: the answer is about another socket")
	}
	tail := m.Data[4+sizeOfID:]
	return socket{
		state: m.Data[1],
		uid:   binary.NativeEndian.Uint32(tail[12:]),
		inode: uint64(binary.NativeEndian.Uint32(tail[16:])),
	}, nil
}

// readTable finds the socket between two addresses in the tables of proc(5).
func readTable(from, to netip.AddrPort) (socket, error) {
	files := []string{"/proc/thread-self/net/tcp6"}
	if from.Addr().Is4() { // one of IPv6 may speak IPv4
		files = append(files, "/proc/thread-self/net/tcp")
	}
	err := errors.New("there is no such connection in this network namespace")
	for _, file := range files {
		s, found, failed := readTableOf(file, from, to)
		if found {
			return s, nil
		}
		if failed != nil && !errors.Is(failed, os.ErrNotExist) {
			err = failed
		}
	}
	return socket{}, err
}

func readTableOf(file string, from, to netip.AddrPort) (s socket, found bool, err error) {
	f, err := os.Open(file)
	if err != nil {
		return s, false, err
	}
	defer f.Close()
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return s, false, nil
		}
		if err != nil {
			return s, false, err
		}
		words := strings.Fields(line)
		if len(words) < 10 || !isAddress(words[1], from) || !isAddress(words[2], to) {
			continue
		}
		state, err1 := strconv.ParseUint(words[3], 16, 8)
		uid, err2 := strconv.ParseUint(words[7], 10, 32)
		inode, err3 := strconv.ParseUint(words[9], 10, 64)
		return socket{uint8(state), uint32(uid), inode}, true, errors.Join(err1, err2, err3)
	}
}

// isAddress reports whether a field of the tables is the address: words of 32 bits in the order
// of this machine, and the port.
func isAddress(field string, is netip.AddrPort) bool {
	address, port, _ := strings.Cut(field, ":")
	raw, err := hex.DecodeString(address)
	if err != nil || len(raw)%4 != 0 {
		return false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	a, ok := netip.AddrFromSlice(raw)
	n, err := strconv.ParseUint(port, 16, 16)
	return ok && err == nil && a.Unmap() == is.Addr() && uint16(n) == is.Port()
}
