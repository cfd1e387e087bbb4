package netlink

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// maxName is the longest name of a link.
const maxName = unix.IFNAMSIZ - 1

// Links are all links of a namespace in the order of their indexes.
func (k *Kernel) Links(ns kernel.NS) (list []kernel.Link, err error) {
	err = k.in(ns, "list links", func(n *namespace) error {
		list, err = k.links(n)
		return err
	})
	return list, err
}

func (k *Kernel) links(n *namespace) ([]kernel.Link, error) {
	var found []parsedLink
	m := newMessage(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	m.link(unix.AF_UNSPEC, 0, 0, 0)
	m.u32(unix.IFLA_EXT_MASK, skipStats)
	err := n.dump(m, func() { found = nil }, func(_ uint16, body []byte) {
		if l, ok := parseLink(n.id, body); ok {
			found = append(found, l)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b parsedLink) int { return cmp.Compare(a.Index, b.Index) })
	list := make([]kernel.Link, len(found))
	for i, l := range found {
		list[i] = k.complete(n, l)
	}
	return list, nil
}

// Link is the link with a name, which may also be one of its other names.
func (k *Kernel) Link(ns kernel.NS, name string) (l kernel.Link, err error) {
	err = k.in(ns, fmt.Sprintf("find link %q", name), func(n *namespace) error {
		l, err = k.link(n, name)
		return err
	})
	return l, err
}

func (k *Kernel) link(n *namespace, name string) (kernel.Link, error) {
	m, err := byName(name)
	if err != nil {
		return kernel.Link{}, err
	}
	return k.getLink(n, m)
}

// byName asks for the link with a name.
func byName(name string) (*message, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	m := newMessage(unix.RTM_GETLINK, 0)
	m.link(unix.AF_UNSPEC, 0, 0, 0)
	m.u32(unix.IFLA_EXT_MASK, skipStats)
	m.str(unix.IFLA_IFNAME, name)
	return m, nil
}

// LinksByName are the links with these names, with one call of the kernel for many.
func (k *Kernel) LinksByName(ns kernel.NS, names []string) ([]kernel.Link, []error) {
	links, errs := make([]kernel.Link, len(names)), make([]error, len(names))
	k.inMany(ns, errs, func(i int) string { return fmt.Sprintf("find link %q", names[i]) }, func(n *namespace) {
		k.linksByName(n, names, links, errs)
	})
	return links, errs
}

func (k *Kernel) linksByName(n *namespace, names []string, links []kernel.Link, errs []error) {
	ms, of := make([]*message, 0, len(names)), make([]int, 0, len(names)) // whose each message is
	for i, name := range names {
		m, err := byName(name)
		if errs[i] = err; err == nil {
			ms, of = append(ms, m), append(of, i)
		}
	}
	found := make([]parsedLink, len(names))
	for j, err := range n.doEach(ms, func(j int, _ uint16, body []byte) { found[of[j]], _ = parseLink(n.id, body) }) {
		if errs[of[j]] = err; err == nil {
			links[of[j]] = k.complete(n, found[of[j]])
		}
	}
}

// LinkByIndex is the link with an index.
func (k *Kernel) LinkByIndex(ns kernel.NS, index int) (l kernel.Link, err error) {
	err = k.in(ns, fmt.Sprintf("find link %d", index), func(n *namespace) error {
		l, err = k.linkByIndex(n, index)
		return err
	})
	return l, err
}

func (k *Kernel) linkByIndex(n *namespace, index int) (kernel.Link, error) {
	if err := checkIndex(index); err != nil {
		return kernel.Link{}, err
	}
	m := newMessage(unix.RTM_GETLINK, 0)
	m.link(unix.AF_UNSPEC, index, 0, 0)
	m.u32(unix.IFLA_EXT_MASK, skipStats)
	return k.getLink(n, m)
}

func (k *Kernel) getLink(n *namespace, m *message) (kernel.Link, error) {
	var l parsedLink
	err := n.do(m, func(_ uint16, body []byte) { l, _ = parseLink(n.id, body) })
	if err != nil {
		return kernel.Link{}, err
	}
	return k.complete(n, l), nil
}

// Running reports whether packets pass a link: it and its other end are up, and the
// kernel has come to it. It is not in [kernel.Link], which is what was made.
func (k *Kernel) Running(at kernel.LinkRef) (running bool, err error) {
	flags, err := k.flagsOf(at)
	return flags&unix.IFF_RUNNING != 0, err
}

// Carrier implements [kernel.Links]. A link that has a carrier is running a moment later.
func (k *Kernel) Carrier(at kernel.LinkRef) (bool, error) {
	flags, err := k.flagsOf(at)
	return flags&unix.IFF_LOWER_UP != 0, err
}

// flagsOf reads the flags of a link.
func (k *Kernel) flagsOf(at kernel.LinkRef) (flags uint32, err error) {
	err = k.in(at.NS, fmt.Sprintf("find link %d", at.Index), func(n *namespace) error {
		m := newMessage(unix.RTM_GETLINK, 0)
		m.link(unix.AF_UNSPEC, at.Index, 0, 0)
		m.u32(unix.IFLA_EXT_MASK, skipStats)
		return n.do(m, func(_ uint16, body []byte) {
			if len(body) >= unix.SizeofIfInfomsg {
				flags = asU32(body[8:])
			}
		})
	})
	return flags, err
}

// SetLink changes what the patch names, in as few requests as keep its order.
func (k *Kernel) SetLink(ns kernel.NS, index int, p kernel.LinkPatch) error {
	return k.in(ns, fmt.Sprintf("change link %d", index), func(n *namespace) error {
		return k.setLink(n, index, p)
	})
}

func (k *Kernel) setLink(n *namespace, index int, p kernel.LinkPatch) error {
	if err := checkIndex(index); err != nil {
		return err
	}
	if err := n.setAccept(k, index, p.Accepts); err != nil {
		return err
	}
	steps := []step{settings, porting, typed}
	if markedFirst(p) {
		steps[0] = marking
	} else if err := n.rename(index, p); err != nil {
		return err
	}
	for _, build := range steps {
		m, err := build(index, p)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		if err := n.do(m, nil); err != nil {
			return cmp.Or(withoutVLANs(p.Bridge, err), err)
		}
	}
	if p.Master != nil && *p.Master != 0 {
		n.waitForPorts(index)
	}
	return nil
}

// SetLinks changes links, with one call of the kernel for many of those that take one request
// each: of the others the next one is only to be sent when the last one was granted.
func (k *Kernel) SetLinks(ns kernel.NS, changes []kernel.LinkChange) []error {
	errs := make([]error, len(changes))
	k.inMany(ns, errs, func(i int) string { return fmt.Sprintf("change link %d", changes[i].Index) }, func(n *namespace) {
		k.setLinks(n, changes, errs)
	})
	return errs
}

func (k *Kernel) setLinks(n *namespace, changes []kernel.LinkChange, errs []error) {
	ms, of := make([]*message, 0, len(changes)), make([]int, 0, len(changes)) // whose each message is
	ask := func() {
		var ports []int
		for j, err := range n.doEach(ms, nil) {
			c := changes[of[j]]
			if errs[of[j]] = cmp.Or(withoutVLANs(c.Patch.Bridge, err), err); err == nil && c.Patch.Master != nil && *c.Patch.Master != 0 {
				ports = append(ports, c.Index)
			}
		}
		n.waitForPorts(ports...)
		ms, of = ms[:0], of[:0]
	}
	for i, c := range changes {
		if m := inOne(c); m != nil {
			ms, of = append(ms, m), append(of, i)
			continue
		}
		ask()
		errs[i] = k.setLink(n, c.Index, c.Patch)
	}
	ask()
}

// inOne is the one request that a change takes, nil if it takes another number of them.
func inOne(c kernel.LinkChange) *message {
	p := c.Patch
	if checkIndex(c.Index) != nil || !markedFirst(p) || p.Accepts != (kernel.AcceptSpec{}) {
		return nil
	}
	var one *message
	for _, build := range []step{marking, porting, typed} {
		m, err := build(c.Index, p)
		if err != nil || m != nil && one != nil {
			return nil
		}
		one = cmp.Or(m, one)
	}
	return one
}

// step is the request for some of what a patch names, nil if it names nothing of that.
type step func(index int, p kernel.LinkPatch) (*message, error)

// markedFirst reports whether the kernel does all that naming and settings say in that order
// if it is asked for at once: it sets an address and an MTU before group and alias, and all
// else after them.
func markedFirst(p kernel.LinkPatch) bool { return p.Name == nil && p.MAC == nil && p.MTU == nil }

// marking is naming and settings in one; see [markedFirst].
func marking(index int, p kernel.LinkPatch) (*message, error) {
	named, err := naming(index, p)
	if err != nil {
		return nil, err
	}
	set, err := settings(index, p)
	if named == nil || set == nil || err != nil {
		return cmp.Or(named, set), err
	}
	set.b = append(set.b, named.b[unix.SizeofNlMsghdr+unix.SizeofIfInfomsg:]...)
	return set, nil
}

// rename sends what the patch says of who the link is. Before Linux 6.2 the name of a link
// that is up cannot change: there it goes down for that, and is set up again by the patch or
// here.
func (n *namespace) rename(index int, p kernel.LinkPatch) error {
	m, err := naming(index, p)
	if err != nil || m == nil {
		return err
	}
	err = n.do(m, nil)
	if p.Name == nil || !errors.Is(err, unix.EBUSY) {
		return err
	}
	if err := n.setUp(index, false); err != nil {
		return err
	}
	err = n.do(m, nil)
	if p.Up == nil || err != nil {
		err = errors.Join(err, n.setUp(index, true))
	}
	return err
}

func (n *namespace) setUp(index int, up bool) error {
	m, err := settings(index, kernel.LinkPatch{Up: &up})
	if err != nil {
		return err
	}
	return n.do(m, nil)
}

// naming sets who the link is, nil if nothing of that is to change.
func naming(index int, p kernel.LinkPatch) (*message, error) {
	m := newMessage(unix.RTM_SETLINK, 0)
	m.link(unix.AF_UNSPEC, index, 0, 0)
	empty := len(m.b)
	if p.Group != nil {
		m.u32(unix.IFLA_GROUP, *p.Group)
	}
	if p.Name != nil {
		if err := checkName(*p.Name); err != nil {
			return nil, err
		}
		m.str(unix.IFLA_IFNAME, *p.Name)
	}
	if p.Alias != nil {
		m.bytes(unix.IFLA_IFALIAS, []byte(*p.Alias))
	}
	if len(m.b) == empty {
		return nil, nil
	}
	return m, nil
}

// settings sets how the link works, nil if nothing of that is to change.
func settings(index int, p kernel.LinkPatch) (*message, error) {
	m := newMessage(unix.RTM_SETLINK, 0)
	var flags, change uint32
	if p.Up != nil {
		change = unix.IFF_UP
		if *p.Up {
			flags = unix.IFF_UP
		}
	}
	m.link(unix.AF_UNSPEC, index, flags, change)
	empty := len(m.b)
	if p.MAC != nil {
		if err := addMAC(m, *p.MAC); err != nil {
			return nil, err
		}
	}
	if p.MTU != nil {
		m.u32(unix.IFLA_MTU, uint32(*p.MTU))
	}
	if p.Master != nil {
		m.u32(unix.IFLA_MASTER, uint32(*p.Master))
	}
	if change == 0 && len(m.b) == empty {
		return nil, nil
	}
	return m, nil
}

// typed sets the settings that a type of links has, nil if nothing of that is to change. A
// link is of one type.
func typed(index int, p kernel.LinkPatch) (m *message, err error) {
	m = newMessage(unix.RTM_NEWLINK, 0)
	m.link(unix.AF_UNSPEC, index, 0, 0)
	switch {
	case p.Bridge != nil && *p.Bridge != (kernel.BridgeSpec{}):
		addInfo(m, "bridge", func() { addBridge(m, p.Bridge) })
	case p.Bond != nil && *p.Bond != (kernel.BondSpec{}):
		addInfo(m, "bond", func() { err = addBond(m, p.Bond) })
	case p.Tunnel != nil:
		addInfo(m, p.Tunnel.Kind, func() { err = addTunnel(m, p.Tunnel) })
	case p.Geneve != nil:
		addInfo(m, "geneve", func() {
			addGeneve(m, &kernel.GeneveSpec{VNI: p.Geneve.VNI, Remote: p.Geneve.Remote, TTL: p.Geneve.TTL})
		})
	default:
		return nil, nil
	}
	return m, err
}

// DeleteLink removes one link.
func (k *Kernel) DeleteLink(ns kernel.NS, index int) error {
	return k.in(ns, fmt.Sprintf("delete link %d", index), func(n *namespace) error {
		return n.deleteLink(index)
	})
}

func (n *namespace) deleteLink(index int) error {
	if err := checkIndex(index); err != nil {
		return err
	}
	m := newMessage(unix.RTM_DELLINK, 0)
	m.link(unix.AF_UNSPEC, index, 0, 0)
	return n.do(m, nil)
}

// checkIndex refuses what the kernel takes for "any link", or for a group.
func checkIndex(index int) error {
	if index <= 0 {
		return fmt.Errorf("%w: %d is no index of a link", kernel.ErrNotExist, index)
	}
	return nil
}

func checkName(name string) error {
	if strings.Contains(name, "%") { // the kernel would number it
		return fmt.Errorf("a link's name has no %%: %q: %w", name, unix.EINVAL)
	}
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a link's name has 1 to %d bytes, %q has %d: %w", maxName, name, len(name), unix.EINVAL)
	}
	return nil
}

func addMAC(m *message, mac string) error {
	hw, err := net.ParseMAC(mac)
	if err != nil {
		return err
	}
	m.bytes(unix.IFLA_ADDRESS, hw)
	return nil
}
