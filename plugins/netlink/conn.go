package netlink

import (
	"container/list"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// answerLimit ends a wait for the kernel that would otherwise last for ever.
// It is far beyond any time for which others hold the network lock.
const answerLimit = 60 * time.Second

// bufferSize holds any datagram of the kernel: dumps come in at most 32 KiB.
const bufferSize = 64 << 10

// conn is one netlink socket, used by one caller at a time.
type conn struct {
	fd  int
	seq uint32

	of    *namespace // of which it is, while it is idle
	place *list.Element
}

// dial opens a conn in the namespace of the calling thread.
func dial(protocol int) (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	if err := bind(fd); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind netlink socket: %w", err)
	}
	// Words with errors, short acknowledgements, filters in dumps. Kernels
	// that lack one of them work without it.
	for _, opt := range []int{unix.NETLINK_EXT_ACK, unix.NETLINK_CAP_ACK, unix.NETLINK_GET_STRICT_CHK} {
		_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, opt, 1)
	}
	limit := unix.NsecToTimeval(answerLimit.Nanoseconds())
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
	return &conn{fd: fd}, nil
}

func (c *conn) close() { unix.Close(c.fd) }

// request sends one message of route netlink and hands every message of the answer to each. A
// dump ends with its last part, a get with its answer, all else with the
// acknowledgement. Bodies are valid during the call only.
func (c *conn) request(m *message, buf []byte, each func(typ uint16, body []byte)) error {
	if !isGet(m.typ()) {
		return c.acknowledged(m, buf, each)
	}
	c.seq++
	m.seal(0, c.seq)
	if err := c.send(m.b); err != nil {
		return err
	}
	return c.answer(c.seq, m.flags()&unix.NLM_F_DUMP == 0, buf, each)
}

// acknowledged sends one message, of which the kernel says at last that it is done.
func (c *conn) acknowledged(m *message, buf []byte, each func(typ uint16, body []byte)) error {
	c.seq++
	m.seal(unix.NLM_F_ACK, c.seq)
	if err := c.send(m.b); err != nil {
		return err
	}
	return c.answer(c.seq, false, buf, each)
}

// batch sends messages in one datagram and returns one error for each. The kernel does them
// in order and answers those that fail, and the last one, which asks for it. What it says
// besides, of messages that ask for an echo, is handed to each with their place.
func (c *conn) batch(ms []*message, buf []byte, each func(i int, typ uint16, body []byte)) ([]error, error) {
	first, last := c.seq+1, c.seq+uint32(len(ms))
	all := make([]byte, 0, len(ms)*len(ms[0].b))
	for i, m := range ms {
		flags := uint16(0)
		if i == len(ms)-1 {
			flags = unix.NLM_F_ACK
		}
		c.seq++
		m.seal(flags, c.seq)
		all = append(all, m.b...) // a message ends aligned
	}
	if err := c.send(all); err != nil {
		return nil, err
	}
	errs := make([]error, len(ms))
	for {
		b, err := receive(c.fd, buf, 0)
		if err != nil {
			return nil, fmt.Errorf("receive from kernel: %w", err)
		}
		for h, body := range messages(b) {
			i := h.Seq - first
			if i >= uint32(len(ms)) {
				continue // of an earlier request that was given up
			}
			if h.Type != unix.NLMSG_ERROR {
				if each != nil {
					each(int(i), h.Type, body)
				}
				continue
			}
			if errs[i] = verdict(h, body); h.Seq == last {
				return errs, nil
			}
		}
	}
}

func (c *conn) send(b []byte) error {
	for {
		if _, err := unix.Write(c.fd, b); err == nil {
			return nil
		} else if err != unix.EINTR {
			return fmt.Errorf("send to kernel: %w", err)
		}
	}
}

// answer reads until the request with number seq is answered.
func (c *conn) answer(seq uint32, single bool, buf []byte, each func(typ uint16, body []byte)) error {
	interrupted := false
	for {
		b, err := receive(c.fd, buf, 0)
		if err != nil {
			return fmt.Errorf("receive from kernel: %w", err)
		}
		for h, body := range messages(b) {
			if h.Seq != seq {
				continue // of an earlier request that was given up
			}
			interrupted = interrupted || h.Flags&unix.NLM_F_DUMP_INTR != 0
			switch h.Type {
			case unix.NLMSG_ERROR, unix.NLMSG_DONE:
				if err := verdict(h, body); err != nil {
					return err
				}
				if interrupted {
					return errInterrupted
				}
				return nil
			}
			if each != nil {
				each(h.Type, body)
			}
			if single {
				return nil
			}
		}
	}
}

// verdict reads the error of an acknowledgement or of the end of a dump.
func verdict(h unix.NlMsghdr, body []byte) error {
	errno := -int32(asU32(body))
	if errno == 0 {
		return nil
	}
	r := &refusal{errno: unix.Errno(errno)}
	if h.Flags&unix.NLM_F_ACK_TLVS != 0 {
		rest := body[4:]
		if h.Type == unix.NLMSG_ERROR {
			rest = rest[min(unix.SizeofNlMsghdr, len(rest)):]
		}
		for typ, v := range attributes(rest) {
			if typ == unix.NLMSGERR_ATTR_MSG {
				r.why = asString(v)
			}
		}
	}
	return r
}

// isGet tells reads from writes; see RTM_FAM in linux/rtnetlink.h.
func isGet(typ uint16) bool { return typ&3 == unix.RTM_GETLINK&3 }

// receive reads one datagram of the kernel.
func receive(fd int, buf []byte, flags int) ([]byte, error) {
	for {
		n, from, err := unix.Recvfrom(fd, buf, flags|unix.MSG_TRUNC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if a, ok := from.(*unix.SockaddrNetlink); !ok || a.Pid != 0 {
			continue // another process, not the kernel
		}
		if n > len(buf) {
			return nil, fmt.Errorf("datagram of %d bytes: %w", n, unix.EMSGSIZE)
		}
		return buf[:n], nil
	}
}

// messages walks the messages of a datagram.
func messages(b []byte) func(yield func(unix.NlMsghdr, []byte) bool) {
	return func(yield func(unix.NlMsghdr, []byte) bool) {
		for len(b) >= unix.SizeofNlMsghdr {
			h := unix.NlMsghdr{
				Len: native.Uint32(b), Type: native.Uint16(b[4:]), Flags: native.Uint16(b[6:]),
				Seq: native.Uint32(b[8:]), Pid: native.Uint32(b[12:]),
			}
			size := int(h.Len)
			if size < unix.SizeofNlMsghdr || size > len(b) {
				return
			}
			if !yield(h, b[unix.SizeofNlMsghdr:size]) {
				return
			}
			b = b[min(align(size), len(b)):]
		}
	}
}
