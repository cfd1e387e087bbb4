package netlink

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// genericVersion is that of the families which are called here.
const genericVersion = 1

// generic is a family of generic netlink, called in one namespace.
type generic struct {
	n      *namespace
	c      *conn
	family int
}

// withGeneric calls f with a family. The kernel gives it its number.
func (n *namespace) withGeneric(name string, f func(g generic) error) error {
	g := generic{n: n, family: unix.GENL_ID_CTRL}
	if err := n.within(func() (err error) {
		g.c, err = dial(unix.NETLINK_GENERIC)
		return err
	}); err != nil {
		return err
	}
	defer g.c.close()
	family := 0
	m := g.message(unix.CTRL_CMD_GETFAMILY)
	m.str(unix.CTRL_ATTR_FAMILY_NAME, name)
	err := g.get(m, func(attrs []byte) { family = parseFamily(attrs) })
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%w: this kernel has no netlink family %q", kernel.ErrUnsupported, name)
	}
	if err != nil {
		return err
	}
	g.family = family
	return f(g)
}

func parseFamily(attrs []byte) (id int) {
	for typ, v := range attributes(attrs) {
		if typ == unix.CTRL_ATTR_FAMILY_ID {
			id = int(asU16(v))
		}
	}
	return id
}

func (g generic) message(command uint8) *message {
	m := newMessage(g.family, 0)
	m.b = append(m.b, command, genericVersion, 0, 0)
	return m
}

// get hands the attributes of the answer to each.
func (g generic) get(m *message, each func(attrs []byte)) error {
	buf := g.n.pool.Get().(*[bufferSize]byte)
	defer g.n.pool.Put(buf)
	return refused(g.c.acknowledged(m, buf[:], func(_ uint16, body []byte) {
		if len(body) >= unix.GENL_HDRLEN {
			each(body[unix.GENL_HDRLEN:])
		}
	}))
}

// set sends what may change something.
func (g generic) set(m *message) error {
	g.n.writes.add(1)
	return g.get(m, func([]byte) {})
}
