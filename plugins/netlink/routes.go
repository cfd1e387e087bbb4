package netlink

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// defaultMetric6 is what the kernel makes of an IPv6 metric of 0.
const defaultMetric6 = 1024

// metricConnected6 is the metric of routes that the kernel makes to the networks of IPv6 addresses
// (IP6_RT_PRIO_ADDRCONF).
const metricConnected6 = 256

// Routes of all tables, by table, destination and metric. The kernel's own
// entries in table local are left out.
func (k *Kernel) Routes(ns kernel.NS) (list []kernel.Route, err error) {
	err = k.in(ns, "list routes", func(n *namespace) error {
		list, err = n.routes()
		return err
	})
	return list, err
}

func (n *namespace) routes() ([]kernel.Route, error) {
	return n.routesOf(func(*message) {}, func(r kernel.Route) bool { return !kernelsOwn(r) })
}

// routesOf lists the routes that the kernel selects by what filter adds to the request, and that pass.
func (n *namespace) routesOf(filter func(*message), pass func(kernel.Route) bool) ([]kernel.Route, error) {
	var list []kernel.Route
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		before := len(list)
		m := newMessage(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
		m.b = append(m.b, family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		filter(m)
		err := n.dump(m, func() { list = list[:before] }, func(_ uint16, body []byte) {
			if r, ok := parseAnyRoute(body); ok && pass(r) {
				list = push(list, r)
			}
		})
		if err != nil && !errors.Is(err, kernel.ErrUnsupported) { // no IPv6
			return nil, err
		}
	}
	slices.SortStableFunc(list, compareRoutes)
	return list, nil
}

// AddressRoutes are the routes of the addresses of a link, or of all with index 0. The kernel selects
// them, so that other routes cost little.
func (k *Kernel) AddressRoutes(ns kernel.NS, index int) (list []kernel.Route, err error) {
	err = k.in(ns, "list the routes of addresses", func(n *namespace) error {
		list, err = n.addressRoutes(index)
		return err
	})
	return list, err
}

func (n *namespace) addressRoutes(index int) ([]kernel.Route, error) {
	return n.routesOf(func(m *message) {
		m.b[unix.NLMSG_HDRLEN+5] = unix.RTPROT_KERNEL
		if index != 0 {
			m.u32(unix.RTA_OIF, uint32(index))
		}
	}, func(r kernel.Route) bool {
		// Kernels before 4.20 do not select.
		return r.Protocol == unix.RTPROT_KERNEL && (r.Type == routeTypes[unix.RTN_UNICAST] || r.OfAddress()) && (index == 0 || r.Index == index)
	})
}

// AddAddressRoute adds a route after those with its identity.
func (k *Kernel) AddAddressRoute(ns kernel.NS, r kernel.Route) error {
	return k.putRoute(ns, "add", unix.NLM_F_CREATE|unix.NLM_F_APPEND, r)
}

func compareRoutes(a, b kernel.Route) int {
	return cmp.Or(
		cmp.Compare(a.Table, b.Table),
		cmp.Compare(a.Dst.Addr().BitLen(), b.Dst.Addr().BitLen()),
		a.Dst.Addr().Compare(b.Dst.Addr()),
		cmp.Compare(a.Dst.Bits(), b.Dst.Bits()),
		cmp.Compare(a.Metric, b.Metric),
	)
}

// AddRoute adds a route whose identity (family, table, destination, metric) is
// not taken. The kernel would append ways to an equal IPv6 route otherwise.
func (k *Kernel) AddRoute(ns kernel.NS, r kernel.Route) error {
	return k.putRoute(ns, "add", unix.NLM_F_CREATE|unix.NLM_F_EXCL, r)
}

// AddRoutes adds routes with one call of the kernel for many.
func (k *Kernel) AddRoutes(ns kernel.NS, rs []*kernel.Route) []error {
	errs := make([]error, len(rs))
	ms, of := make([]*message, 0, len(rs)), make([]int, 0, len(rs)) // whose each message is
	for i, r := range rs {
		m, err := newRoute(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, *r)
		if errs[i] = err; err == nil {
			ms, of = append(ms, m), append(of, i)
		}
	}
	var answers []error
	err := k.in(ns, "add routes", func(n *namespace) (err error) {
		answers, err = n.doAll(ms, nil)
		return err
	})
	for j, i := range of {
		if j < len(answers) {
			errs[i] = answers[j]
		} else {
			errs[i] = err
		}
	}
	for i, r := range rs {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("add %s: %w", routeName(*r), hintRoute(*r, errs[i]))
		}
	}
	return errs
}

// ReplaceRoute adds a route, or puts it in the place of the one with its
// identity.
func (k *Kernel) ReplaceRoute(ns kernel.NS, r kernel.Route) error {
	return k.putRoute(ns, "replace", unix.NLM_F_CREATE|unix.NLM_F_REPLACE, r)
}

func (k *Kernel) putRoute(ns kernel.NS, act string, flags int, r kernel.Route) error {
	return k.in(ns, act+" "+routeName(r), func(n *namespace) error {
		m, err := newRoute(unix.RTM_NEWROUTE, flags, r)
		if err != nil {
			return err
		}
		return hintRoute(r, n.do(m, nil))
	})
}

// hintRoute says what the kernel means by its commonest refusals.
func hintRoute(r kernel.Route, err error) error {
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) {
		return r.NoWay(err)
	}
	return err
}

// DeleteRoute removes the route that agrees in destination, table, metric,
// protocol, type and ways; ErrNotExist if there is none.
func (k *Kernel) DeleteRoute(ns kernel.NS, r kernel.Route) error {
	return k.in(ns, "delete "+routeName(r), func(n *namespace) error {
		m, err := newRoute(unix.RTM_DELROUTE, unix.NLM_F_ECHO, r)
		if err != nil {
			return err
		}
		// The kernel takes metric 0 for any metric, and IPv6 does not look at
		// the type. It tells what it removed; a wrong one is put back.
		var wrong []byte
		err = n.do(m, func(typ uint16, body []byte) {
			if got, ok := parseRoute(body); ok && typ == unix.RTM_DELROUTE && !meant(r, got) {
				wrong = slices.Clone(body)
			}
		})
		if err != nil || wrong == nil {
			return err
		}
		back := newMessage(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_APPEND)
		back.b = append(back.b, restorable(wrong)...)
		if err := n.do(back, nil); err != nil {
			return fmt.Errorf("put back another route that the kernel took for it: %w", err)
		}
		return refused(unix.ESRCH)
	})
}

// meant reports whether got is the route that r asked to remove.
func meant(r, got kernel.Route) bool {
	return got.Metric == metricOf(r) && got.Type == typeOf(r)
}

// restorable is a route message without what only the kernel may say.
func restorable(body []byte) []byte {
	b := slices.Clone(body[:unix.SizeofRtMsg])
	native.PutUint32(b[8:], asU32(b[8:])&unix.RTNH_F_ONLINK)
	m := &message{b: b}
	r, _ := parseRoute(body)
	if r.Nexthop != 0 { // the rest of where it leads is the nexthop's
		b[7] = unix.RTN_UNICAST
		native.PutUint32(b[8:], 0)
	}
	for typ, v := range attributes(body[unix.SizeofRtMsg:]) {
		switch typ {
		case unix.RTA_CACHEINFO:
			continue
		case unix.RTA_OIF, unix.RTA_GATEWAY, unix.RTA_VIA, unix.RTA_MULTIPATH, unix.RTA_ENCAP_TYPE, unix.RTA_ENCAP:
			if r.Nexthop != 0 {
				continue
			}
		}
		m.bytes(typ, v)
	}
	return m.b
}

func routeName(r kernel.Route) string {
	s := fmt.Sprintf("route %s", r.Dst)
	if r.Table != 0 && r.Table != unix.RT_TABLE_MAIN {
		s += fmt.Sprintf(" table %d", r.Table)
	}
	return s
}

func typeOf(r kernel.Route) string { return cmp.Or(r.Type, "unicast") }

func metricOf(r kernel.Route) uint32 {
	if r.Metric == 0 && r.Dst.Addr().Is6() {
		return defaultMetric6
	}
	return r.Metric
}

// newRoute writes a route message.
func newRoute(typ, flags int, r kernel.Route) (*message, error) {
	if !r.Dst.IsValid() || r.Dst.Addr().Is4In6() {
		return nil, fmt.Errorf("not a destination: %w", unix.EINVAL)
	}
	kind, ok := routeTypes.number(typeOf(r))
	if !ok {
		return nil, fmt.Errorf("no route type %q: %w", r.Type, unix.EINVAL)
	}
	scope, err := scopeOf(typ, r)
	if err != nil {
		return nil, err
	}
	dst := r.Dst.Masked()
	table := cmp.Or(r.Table, unix.RT_TABLE_MAIN)
	var rflags uint32
	if r.Onlink && len(r.NextHops) == 0 && r.Nexthop == 0 {
		rflags = unix.RTNH_F_ONLINK
	}
	m := newMessage(typ, flags)
	m.b = append(m.b, family(dst.Addr()), uint8(dst.Bits()), 0, 0, shortTable(table), r.Protocol, scope, kind)
	m.b = native.AppendUint32(m.b, rflags)
	m.u32(unix.RTA_TABLE, table)
	if dst.Bits() != 0 {
		m.addr(unix.RTA_DST, dst.Addr())
	}
	if metric := metricOf(r); metric != 0 {
		m.u32(unix.RTA_PRIORITY, metric)
	}
	if r.Src.IsValid() && typ == unix.RTM_NEWROUTE {
		m.addr(unix.RTA_PREFSRC, r.Src)
	}
	if r.MTU != 0 && typ == unix.RTM_NEWROUTE {
		at := m.open(unix.RTA_METRICS)
		m.u32(unix.RTAX_MTU, uint32(r.MTU))
		m.close(at)
	}
	return m, addWays(m, typ, dst.Addr(), r)
}

func shortTable(table uint32) uint8 {
	if table > 255 {
		return unix.RT_TABLE_UNSPEC
	}
	return uint8(table)
}

// addWays adds where the route leads to. A deletion does not look at what packets are put into.
func addWays(m *message, typ int, dst netip.Addr, r kernel.Route) error {
	encap := func(e kernel.Encap) error {
		if typ != unix.RTM_NEWROUTE {
			return nil
		}
		return addEncap(m, unix.RTA_ENCAP_TYPE, unix.RTA_ENCAP, e)
	}
	if r.Nexthop != 0 {
		m.u32(rtaNexthop, r.Nexthop)
		return nil
	}
	if len(r.NextHops) == 0 {
		if r.Index != 0 {
			m.u32(unix.RTA_OIF, uint32(r.Index))
		}
		addGateway(m, dst, r.Gateway)
		return encap(r.Encap)
	}
	at := m.open(unix.RTA_MULTIPATH)
	for _, h := range r.NextHops {
		start := len(m.b)
		var flags uint8
		if r.Onlink {
			flags = unix.RTNH_F_ONLINK
		}
		// struct rtnexthop; its weight counts from 0.
		m.b = append(m.b, 0, 0, flags, uint8(max(h.Weight, 1)-1))
		m.b = native.AppendUint32(m.b, uint32(h.Index))
		addGateway(m, dst, h.Gateway)
		if err := encap(h.Encap); err != nil {
			return err
		}
		native.PutUint16(m.b[start:], uint16(len(m.b)-start))
	}
	m.close(at)
	return nil
}

// addGateway adds a gateway, which may be IPv6 on the way to an IPv4 address.
func addGateway(m *message, dst, gateway netip.Addr) {
	switch {
	case !gateway.IsValid():
	case dst.Is4() && gateway.Is6():
		a := gateway.As16()
		m.bytes(unix.RTA_VIA, append(native.AppendUint16(nil, unix.AF_INET6), a[:]...))
	default:
		m.addr(unix.RTA_GATEWAY, gateway)
	}
}

// scopeOf is the scope of a route. A deletion does not ask for one, an IPv6
// route has none; what is not given follows from where the route leads to.
func scopeOf(typ int, r kernel.Route) (uint8, error) {
	switch {
	case typ == unix.RTM_DELROUTE && r.Dst.Addr().Is4():
		return unix.RT_SCOPE_NOWHERE, nil
	case r.Dst.Addr().Is6():
		return unix.RT_SCOPE_UNIVERSE, nil
	case r.Scope != "":
		n, ok := routeScopes.number(r.Scope)
		if !ok {
			return 0, fmt.Errorf("no route scope %q: %w", r.Scope, unix.EINVAL)
		}
		return n, nil
	}
	switch typeOf(r) {
	case "local":
		return unix.RT_SCOPE_HOST, nil
	case "broadcast", "multicast", "anycast":
		return unix.RT_SCOPE_LINK, nil
	case "unicast":
		if !r.Gateway.IsValid() && len(r.NextHops) == 0 && r.Nexthop == 0 {
			return unix.RT_SCOPE_LINK, nil
		}
	}
	return unix.RT_SCOPE_UNIVERSE, nil
}
