package netlink

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// AddLink makes a link in place: born in its namespace under its name, with
// group, MTU, address, master and state, by one request. The alias takes a
// second one, since the kernel ignores it at birth; so does the state of a link that
// is to accept less than others, since that must come first.
func (k *Kernel) AddLink(ns kernel.NS, spec kernel.LinkSpec) (l kernel.Link, err error) {
	err = k.in(ns, fmt.Sprintf("add link %q", spec.Name), func(n *namespace) error {
		if err := checkSpec(spec); err != nil {
			return err
		}
		if spec.Tuntap != nil {
			l, err = k.addTuntap(n, spec)
			return err
		}
		l, err = k.addLink(n, spec)
		return err
	})
	return l, err
}

// AddLinks makes links with one call of the kernel for many.
func (k *Kernel) AddLinks(ns kernel.NS, specs []kernel.LinkSpec) ([]kernel.Link, []error) {
	links, errs := make([]kernel.Link, len(specs)), make([]error, len(specs))
	k.inMany(ns, errs, func(i int) string { return fmt.Sprintf("add link %q", specs[i].Name) }, func(n *namespace) {
		k.addLinks(n, specs, links, errs)
	})
	return links, errs
}

func (k *Kernel) addLinks(n *namespace, specs []kernel.LinkSpec, links []kernel.Link, errs []error) {
	births, of := make([]*birth, 0, len(specs)), make([]int, 0, len(specs)) // whose each birth is
	ms := make([]*message, 0, len(specs))
	ask := func() {
		for j, err := range n.doEach(ms, func(j int, typ uint16, body []byte) { births[j].heard(typ, body) }) {
			i, b := of[j], births[j]
			links[i], errs[i] = b.born(err)
			if errs[i] != nil {
				errs[i] = b.whoseName(errs[i])
			}
		}
		k.guard(births, of, links, errs)
		for j, b := range births {
			if i := of[j]; errs[i] == nil {
				links[i], errs[i] = b.marked(links[i])
			}
			b.end()
		}
		births, of, ms = births[:0], of[:0], ms[:0]
	}
	for i, spec := range specs {
		if errs[i] = checkSpec(spec); errs[i] != nil {
			continue
		}
		b := &birth{k: k, n: n, spec: spec, name: spec.Name}
		var m *message
		if spec.Tuntap == nil {
			m, errs[i] = b.prepare()
		}
		if m != nil && b.below == nil {
			births, of, ms = append(births, b), append(of, i), append(ms, m)
			continue
		}
		if b.end(); errs[i] != nil {
			continue
		}
		ask() // before this one, which takes more
		if spec.Tuntap != nil {
			links[i], errs[i] = k.addTuntap(n, spec)
		} else {
			links[i], errs[i] = k.addLink(n, spec)
		}
	}
	ask()
}

func checkSpec(spec kernel.LinkSpec) error {
	if err := checkName(spec.Name); err != nil {
		return err
	}
	return spec.OneType()
}

func (k *Kernel) addLink(n *namespace, spec kernel.LinkSpec) (kernel.Link, error) {
	b := &birth{k: k, n: n, spec: spec, name: spec.Name}
	defer b.end()
	l, err := b.run()
	return b.finish(l, err)
}

// finish ends the birth of a link: under another name, if the kernel must have that, and with
// what it cannot be born with.
func (b *birth) finish(l kernel.Link, err error) (kernel.Link, error) {
	if errors.Is(err, kernel.ErrExist) && b.below != nil {
		l, err = b.underAnotherName(err)
	}
	if err != nil {
		return kernel.Link{}, b.whoseName(err)
	}
	errs := []error{nil}
	links := []kernel.Link{l}
	if b.k.guard([]*birth{b}, []int{0}, links, errs); errs[0] != nil {
		return kernel.Link{}, errs[0]
	}
	return b.marked(links[0])
}

// marked gives a link that was made its mark, and removes it if that cannot be done.
func (b *birth) marked(l kernel.Link) (kernel.Link, error) {
	if err := b.mark(&l); err != nil {
		return kernel.Link{}, errors.Join(err, b.n.deleteLink(l.Index))
	}
	return l, nil
}

// guard has links that were made accept what their specs say, before they are up, with one
// visit to each of the namespaces. A link for which it fails is removed.
func (k *Kernel) guard(births []*birth, of []int, links []kernel.Link, errs []error) {
	type end struct {
		accepting
		birth int
	}
	at := map[*namespace][]end{}
	var order []*namespace
	add := func(n *namespace, name string, s kernel.AcceptSpec, birth int) {
		if s == (kernel.AcceptSpec{}) {
			return
		}
		if at[n] == nil {
			order = append(order, n)
		}
		at[n] = append(at[n], end{accepting{name, s}, birth})
	}
	for j, b := range births {
		if errs[of[j]] != nil {
			continue
		}
		add(b.n, b.spec.Name, b.spec.Accepts, j)
		if v := b.spec.Veth; v != nil {
			add(b.peerPlace(), v.PeerName, v.PeerAccepts, j)
		}
		links[of[j]].Accepts = b.spec.Accepts.After(links[of[j]].Accepts)
	}
	for _, n := range order {
		list := make([]accepting, len(at[n]))
		for i, e := range at[n] {
			list[i] = e.accepting
		}
		for i, err := range n.setAccepts(list) {
			if j := at[n][i].birth; err != nil && errs[of[j]] == nil {
				errs[of[j]] = errors.Join(err, births[j].n.deleteLink(links[of[j]].Index))
				links[of[j]] = kernel.Link{}
			}
		}
	}
}

// peerPlace is where the other end of a cable is.
func (b *birth) peerPlace() *namespace {
	if b.peer != nil {
		return b.peer
	}
	return b.n
}

// birth is one link that is being made.
type birth struct {
	k     *Kernel
	n     *namespace // where the link is to live
	spec  kernel.LinkSpec
	name  string
	peer  *namespace // of a veth
	below *namespace // where the parent lives, nil if that is n
	kind  string
	echo  parsedLink // what the kernel said of it
}

func (b *birth) end() {
	for _, n := range []*namespace{b.peer, b.below} {
		if n != nil {
			n.leave()
		}
	}
}

// run creates the link, and finds it.
func (b *birth) run() (kernel.Link, error) {
	m, err := b.prepare()
	if err != nil {
		return kernel.Link{}, err
	}
	from := b.n
	if b.below != nil {
		from = b.below
	}
	return b.born(from.do(m, b.heard))
}

// prepare makes the request of which the link is born.
func (b *birth) prepare() (*message, error) {
	m, err := b.message()
	if err != nil {
		return nil, err
	}
	if b.below != nil {
		// Sent where the parent is, into the namespace of the child: the only
		// way in which all kernels make it there instead of moving it.
		m.u32(unix.IFLA_NET_NS_FD, uint32(b.n.handle))
	} else {
		// The echo spares a read. It is sent where the link is, so only the
		// namespace of the link may ask for it.
		m.set(unix.NLM_F_ECHO)
	}
	for _, n := range []*namespace{b.peer, b.below} {
		if n != nil { // before the kernel tells of the link
			n.peers.expect(b.n.id)
			b.n.peers.expect(n.id)
		}
	}
	return m, nil
}

// heard takes what the kernel says of the link.
func (b *birth) heard(typ uint16, body []byte) {
	if l, ok := parseLink(b.n.id, body); ok && typ == unix.RTM_NEWLINK && l.Name == b.name {
		b.echo = l
	}
}

// born is the link that the kernel has made, unless it has not.
func (b *birth) born(err error) (kernel.Link, error) {
	if lacks := withoutVLANs(b.spec.Bridge, err); lacks != nil {
		return kernel.Link{}, lacks
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		return kernel.Link{}, unknownType(b.kind, err)
	}
	if err != nil {
		return kernel.Link{}, err
	}
	l := b.echo
	b.echo = parsedLink{}
	if l.Index == 0 { // no echo: kernels before 6.2
		return b.k.link(b.n, b.name)
	}
	l.Master = b.spec.Master // the echo is older than that
	return b.k.complete(b.n, l), nil
}

func (b *birth) message() (*message, error) {
	spec := b.spec
	var flags, change uint32
	if spec.Up && !b.guarded() {
		flags, change = unix.IFF_UP, unix.IFF_UP
	}
	m := newMessage(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	m.link(unix.AF_UNSPEC, 0, flags, change)
	m.u32(unix.IFLA_EXT_MASK, skipStats)
	if err := addBasics(m, b.name, b.bornMTU(), spec.MAC, spec.Group); err != nil {
		return nil, err
	}
	if spec.Master != 0 {
		m.u32(unix.IFLA_MASTER, uint32(spec.Master))
	}
	return m, b.addType(m)
}

// bornMTU is another one than wanted for a bridge. The kernel remembers only of a change that
// somebody chose the MTU of a bridge, and not of its birth; without that each port that
// comes or goes makes it that of the smallest one (br_mtu_auto_adjust).
func (b *birth) bornMTU() int {
	mtu := b.spec.MTU
	switch {
	case b.spec.Bridge != nil && mtu == minMTU:
		return mtu + 1
	case b.spec.Bridge != nil && mtu > minMTU:
		return mtu - 1
	}
	return mtu
}

// minMTU is the least that a bridge takes.
const minMTU = 68

func addBasics(m *message, name string, mtu int, mac string, group uint32) error {
	m.str(unix.IFLA_IFNAME, name)
	if mtu != 0 {
		m.u32(unix.IFLA_MTU, uint32(mtu))
	}
	if group != 0 {
		m.u32(unix.IFLA_GROUP, group)
	}
	if mac == "" {
		return nil
	}
	return addMAC(m, mac)
}

func (b *birth) addType(m *message) error {
	switch s := b.spec; {
	case s.Veth != nil:
		return b.addVeth(m, s.Veth)
	case s.Bridge != nil:
		b.addInfo(m, "bridge", func() { addBridge(m, s.Bridge) })
	case s.Vxlan != nil:
		if err := b.parent(s.Vxlan.ParentNS); err != nil {
			return err
		}
		b.addInfo(m, "vxlan", func() { addVxlan(m, s.Vxlan) })
	case s.Macvlan != nil:
		mode, err := modeNumber(s.Macvlan.Mode)
		if err == nil {
			err = b.parent(s.Macvlan.ParentNS)
		}
		if err != nil {
			return err
		}
		m.u32(unix.IFLA_LINK, uint32(s.Macvlan.Parent))
		b.addInfo(m, "macvlan", func() { m.u32(unix.IFLA_MACVLAN_MODE, mode) })
	case s.Ipvlan != nil:
		mode, err := ipvlanModes.number(s.Ipvlan.Mode)
		if err == nil {
			err = b.parent(s.Ipvlan.ParentNS)
		}
		if err != nil {
			return err
		}
		m.u32(unix.IFLA_LINK, uint32(s.Ipvlan.Parent))
		b.addInfo(m, "ipvlan", func() { m.u16(unix.IFLA_IPVLAN_MODE, uint16(mode)) })
	case s.Vlan != nil:
		if err := b.parent(s.Vlan.ParentNS); err != nil {
			return err
		}
		m.u32(unix.IFLA_LINK, uint32(s.Vlan.Parent))
		b.addInfo(m, "vlan", func() { addVlan(m, s.Vlan) })
	case s.Vrf != nil:
		b.addInfo(m, "vrf", func() { m.u32(unix.IFLA_VRF_TABLE, s.Vrf.Table) })
	case s.Bond != nil:
		var err error
		b.addInfo(m, "bond", func() { err = addBond(m, s.Bond) })
		return err
	case s.Tunnel != nil:
		var err error
		b.addInfo(m, s.Tunnel.Kind, func() { err = addTunnel(m, s.Tunnel) })
		return err
	case s.Geneve != nil:
		b.addInfo(m, "geneve", func() { addGeneve(m, s.Geneve) })
	default:
		b.addInfo(m, s.Plain, func() {})
	}
	return nil
}

func (b *birth) addInfo(m *message, kind string, data func()) {
	b.kind = kind
	addInfo(m, kind, data)
}

// parent opens the namespace in which the parent is to be found.
func (b *birth) parent(ns kernel.NS) error {
	if ns == 0 || ns == b.n.id || b.below != nil {
		return nil
	}
	n, err := b.k.enter(ns)
	if err != nil {
		return fmt.Errorf("namespace of the parent: %w", err)
	}
	b.below = n
	return nil
}

// vethQueues is how many queues for sending each end of a cable may have. Without it Linux makes,
// since 5.15, one for each processor and takes all but one out of use, and waits for a grace
// period of RCU for each end: that is most of the time that a cable takes (veth_init_queues).
const vethQueues = 1

// addVeth describes the other end by a message within the message.
func (b *birth) addVeth(m *message, v *kernel.VethSpec) error {
	if err := checkName(v.PeerName); err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	if v.PeerNS != 0 && v.PeerNS != b.n.id {
		n, err := b.k.enter(v.PeerNS)
		if err != nil {
			return fmt.Errorf("namespace of the peer: %w", err)
		}
		b.peer = n
	}
	var err error
	m.u32(unix.IFLA_NUM_TX_QUEUES, vethQueues)
	b.addInfo(m, "veth", func() {
		at := m.open(vethInfoPeer)
		m.link(unix.AF_UNSPEC, 0, 0, 0)
		m.u32(unix.IFLA_NUM_TX_QUEUES, vethQueues)
		err = addBasics(m, v.PeerName, v.PeerMTU, v.PeerMAC, v.PeerGroup)
		if b.peer != nil {
			m.u32(unix.IFLA_NET_NS_FD, uint32(b.peer.handle))
		}
		m.close(at)
	})
	return err
}

// underAnotherName is for kernels that look for the child's name among the
// links of the parent: born under a name that is free in both, then renamed.
func (b *birth) underAnotherName(taken error) (kernel.Link, error) {
	if _, err := b.k.link(b.n, b.name); err == nil || !errors.Is(err, kernel.ErrNotExist) {
		return kernel.Link{}, taken
	}
	b.name = fmt.Sprintf("plumb%08x", b.k.opts.Random())
	l, err := b.run()
	b.name = b.spec.Name
	if err != nil {
		return kernel.Link{}, err
	}
	if err := b.n.rename(l.Index, kernel.LinkPatch{Name: &b.name}); err != nil {
		return kernel.Link{}, errors.Join(err, b.n.deleteLink(l.Index))
	}
	l.Name = b.name
	return l, nil
}

// whoseName tells the ends of a veth apart when a name is taken.
func (b *birth) whoseName(err error) error {
	if b.spec.Veth == nil || !errors.Is(err, kernel.ErrExist) {
		return err
	}
	if _, own := b.k.link(b.n, b.name); errors.Is(own, kernel.ErrNotExist) {
		return fmt.Errorf("name %q of the peer, in its namespace: %w", b.spec.Veth.PeerName, err)
	}
	return err
}

// mark gives the link, and the peer of a veth, what it cannot be born with: an
// alias, a bridge its MTU, and the peer its state, since it is not connected yet when
// it is born.
func (b *birth) mark(l *kernel.Link) error {
	if mtu := b.spec.MTU; l.MTU != mtu && mtu != 0 && b.spec.Bridge != nil {
		if err := b.k.setLink(b.n, l.Index, kernel.LinkPatch{MTU: &mtu}); err != nil {
			return err
		}
		l.MTU = mtu
	}
	if up := b.spec.Up && b.guarded(); b.spec.Alias != "" || up {
		if err := finish(b.n, l.Index, b.spec.Alias, up); err != nil {
			return err
		}
		l.Alias, l.Up = b.spec.Alias, l.Up || up
	}
	if v := b.spec.Veth; v != nil && (v.PeerAlias != "" || v.PeerUp) {
		return finish(b.peerPlace(), l.Parent, v.PeerAlias, v.PeerUp)
	}
	return nil
}

// guarded reports whether the link is set up only after it was told what to accept.
func (b *birth) guarded() bool { return b.spec.Accepts != (kernel.AcceptSpec{}) }

func finish(n *namespace, index int, alias string, up bool) error {
	var flags uint32
	if up {
		flags = unix.IFF_UP
	}
	m := newMessage(unix.RTM_SETLINK, 0)
	m.link(unix.AF_UNSPEC, index, flags, flags)
	if alias != "" {
		m.bytes(unix.IFLA_IFALIAS, []byte(alias))
	}
	if err := n.do(m, nil); err != nil {
		return fmt.Errorf("set alias and state: %w", err)
	}
	return nil
}
