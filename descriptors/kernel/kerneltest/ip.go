package kerneltest

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// IP does what a command of ip(8), bridge(8), tc(8), wg(8), ethtool(8), sysctl(8), arping(8) or ndsend(8) says, by the
// port: "ip -n blue link add eth0 type dummy". It knows the words that [Text] writes, and those to change and delete.
// Without -n a command is about ns. Comments do nothing.
func IP(k kernel.Kernel, ns kernel.NS, command string) error {
	words := strings.Fields(command)
	if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "#") }); i >= 0 {
		words = words[:i]
	}
	if len(words) == 0 {
		return nil
	}
	c := &request{k: k, ns: ns, words: words[1:]}
	tool := words[0]
	if tool != "ethtool" && tool != "arping" { // of which they are the commands
		if err := c.options(); err != nil {
			return err
		}
	}
	if len(c.words) > 0 && tool != "sysctl" && tool != "ndsend" {
		tool += " " + c.next()
	}
	do := map[string]func() error{
		"ip netns": c.netns, "ip link": c.link, "ip tuntap": c.tuntap, "ip addr": c.address, "ip route": c.route, "ip rule": c.rule,
		"ip neigh": c.neighbor, "ip nexthop": c.nexthop, "bridge fdb": c.fdb, "bridge link": c.bridgePort, "bridge vlan": c.bridgeVLAN,
		"ethtool -K": c.offloads, "arping -U": c.arping, "ndsend": c.ndsend, "wg set": c.wireGuard, "sysctl": c.sysctl, "tc qdisc": c.qdisc, "tc filter": c.filter,
	}[tool]
	if do == nil {
		return fmt.Errorf("%q is no command here", tool)
	}
	if err := do(); err != nil {
		return err
	}
	return c.err
}

// request is a command on its way: what of its words is still to be read.
type request struct {
	k     kernel.Kernel
	ns    kernel.NS
	six   bool
	words []string
	err   error // the first word that is not understood
}

func (c *request) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// next takes the next word, "" at the end.
func (c *request) next() string {
	if len(c.words) == 0 {
		return ""
	}
	w := c.words[0]
	c.words = c.words[1:]
	return w
}

// each takes word by word; take reads what belongs to a word, and reports whether it knows it.
func (c *request) each(take func(word string) bool) error {
	for len(c.words) > 0 && c.err == nil {
		if w := c.next(); !take(w) {
			c.fail("%q is not understood here", w)
		}
	}
	return c.err
}

func (c *request) number() int {
	w := c.next()
	n, err := strconv.ParseUint(w, 0, 32)
	if err != nil {
		c.fail("%q is no number", w)
	}
	return int(n)
}

func (c *request) addr() netip.Addr {
	w := c.next()
	a, err := netip.ParseAddr(w)
	if err != nil {
		c.fail("%q is no address", w)
	}
	return a
}

// prefix is an address with a length, or all of it.
func (c *request) prefix() netip.Prefix {
	w := c.next()
	if w == "default" || w == "all" {
		if c.six {
			return netip.MustParsePrefix("::/0")
		}
		return netip.MustParsePrefix("0.0.0.0/0")
	}
	if p, err := netip.ParsePrefix(w); err == nil {
		return p
	}
	a, err := netip.ParseAddr(w)
	if err != nil {
		c.fail("%q is no address with a length", w)
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, a.BitLen())
}

// options are those before the command.
func (c *request) options() error {
	for len(c.words) > 0 && strings.HasPrefix(c.words[0], "-") {
		switch o := c.next(); o {
		case "-n":
			ns, err := c.named(c.next())
			if err != nil {
				return err
			}
			c.ns = ns
		case "-4":
		case "-6":
			c.six = true
		case "-w":
		default:
			return fmt.Errorf("%q is no option here", o)
		}
	}
	return nil
}

// named opens the namespace with a name. A port tells where names are by what it opens.
func (c *request) named(name string) (kernel.NS, error) {
	named, err := c.k.ListNamed()
	if err != nil {
		return 0, err
	}
	ns, there := named[name]
	if !there {
		return 0, fmt.Errorf("there is no namespace %q: %w", name, kernel.ErrNotExist)
	}
	if k, ok := c.k.(*Kernel); ok && !k.Alive(ns) {
		return k.Open(path.Join(k.opts.NamedDir, name))
	}
	return ns, nil
}

func (c *request) netns() error {
	switch act, name := c.next(), c.next(); act {
	case "add":
		_, err := c.k.CreateNamed(name)
		return err
	case "del", "delete":
		return c.k.DeleteNamed(name)
	default:
		return fmt.Errorf("%q is not understood here", act)
	}
}

// device is the index of a link with a name; with "dev" before it or not.
func (c *request) device() int {
	w := c.next()
	if w == "dev" {
		w = c.next()
	}
	return c.indexOf(c.ns, w)
}

func (c *request) indexOf(ns kernel.NS, name string) int {
	l, err := c.k.Link(ns, name)
	if err != nil {
		c.err = errors.Join(c.err, err)
	}
	return l.Index
}

// acts are what a command can do with an object, by its word.
type acts[T any] map[string]func(kernel.NS, T) error

// do does what a command says, unless that could not be read. What it says nothing of is refused.
func do[T any](c *request, act string, v T, err error, known acts[T]) error {
	f := known[act]
	switch {
	case err != nil:
		return err
	case f == nil:
		return fmt.Errorf("%q is not understood here; there are %s", act, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return f(c.ns, v)
}

func (c *request) address() error {
	act := c.next()
	a := kernel.Address{Prefix: c.prefix()}
	err := c.each(func(w string) bool {
		switch w {
		case "dev":
			a.Index = c.device()
		case "label":
			a.Label = c.next()
		case "scope":
			a.Scope = int(scopes[c.next()])
		case "peer":
			peer := c.prefix()
			a.Peer, a.Prefix = peer.Addr(), netip.PrefixFrom(a.Prefix.Addr(), peer.Bits())
		case "broadcast":
			a.Broadcast = c.addr()
		case "valid_lft":
			a.Valid = uint32(c.number())
		case "preferred_lft":
			a.Preferred = uint32(c.number())
		case "proto":
			a.Protocol = uint8(c.number())
		case "metric":
			a.Metric = uint32(c.number())
		case "noprefixroute":
			a.NoPrefixRoute = true
		case "nodad":
			a.NoDetection = true
		default:
			return false
		}
		return true
	})
	return do(c, act, a, err, acts[kernel.Address]{"add": c.k.AddAddress, "change": c.k.ChangeAddress, "del": c.k.DeleteAddress})
}

func (c *request) route() error {
	act := c.next()
	r := kernel.Route{}
	if len(c.words) > 0 && slices.Contains(routeTypes, c.words[0]) {
		r.Type = c.next()
	}
	r.Dst = c.prefix()
	err := c.each(func(w string) bool {
		switch w {
		case "via":
			r.Gateway = c.gateway()
		case "dev":
			r.Index = c.device()
		case "table":
			r.Table = uint32(c.number())
		case "metric":
			r.Metric = uint32(c.number())
		case "proto":
			r.Protocol = uint8(c.number())
		case "scope":
			r.Scope = c.next()
		case "src":
			r.Src = c.addr()
		case "mtu":
			r.MTU = c.number()
		case "onlink":
			r.Onlink = true
		case "encap":
			r.Encap = c.encap()
		case "nhid":
			r.Nexthop = uint32(c.number())
		case "nexthop":
			r.NextHops = append(r.NextHops, kernel.NextHop{Weight: 1})
			c.way(&r)
		default:
			return false
		}
		return true
	})
	return do(c, act, r, err, acts[kernel.Route]{"add": c.k.AddRoute, "replace": c.k.ReplaceRoute, "del": c.k.DeleteRoute})
}

func (c *request) gateway() netip.Addr {
	if len(c.words) > 0 && c.words[0] == "inet6" {
		c.next()
	}
	return c.addr()
}

// way reads the words of the last way of a route.
func (c *request) way(r *kernel.Route) {
	h := &r.NextHops[len(r.NextHops)-1]
	for len(c.words) > 0 {
		switch c.words[0] {
		case "via":
			c.next()
			h.Gateway = c.gateway()
		case "dev":
			h.Index = c.device()
		case "weight":
			c.next()
			h.Weight = c.number()
		case "onlink":
			c.next()
			r.Onlink = true
		case "encap":
			c.next()
			h.Encap = c.encap()
		default:
			return
		}
	}
}

func (c *request) rule() error {
	act := c.next()
	r := kernel.Rule{IPv6: c.six, Action: "lookup"}
	err := c.each(func(w string) bool {
		switch w {
		case "pref", "priority":
			r.Priority = uint32(c.number())
		case "from":
			r.From = c.prefix()
		case "to":
			r.To = c.prefix()
		case "fwmark":
			mark, mask, _ := strings.Cut(c.next(), "/")
			m, _ := strconv.ParseUint(mark, 0, 32)
			r.Mark, r.Mask = uint32(m), ^uint32(0)
			if mask != "" {
				m, _ = strconv.ParseUint(mask, 0, 32)
				r.Mask = uint32(m)
			}
		case "iif":
			r.Iif = c.next()
		case "oif":
			r.Oif = c.next()
		case "table", "lookup":
			r.Table = uint32(c.number())
		case "type":
			r.Action = c.next()
		case "proto":
			r.Protocol = uint8(c.number())
		default:
			return false
		}
		return true
	})
	return do(c, act, r, err, acts[kernel.Rule]{"add": c.k.AddRule, "del": c.k.DeleteRule})
}

func (c *request) neighbor() error {
	act := c.next()
	r := kernel.Neighbor{Address: c.addr()}
	err := c.each(func(w string) bool {
		switch w {
		case "lladdr":
			r.MAC = c.next()
		case "dev":
			r.Index = c.device()
		case "proto":
			r.Protocol = uint8(c.number())
		case "nud":
			return c.next() == "permanent"
		default:
			return false
		}
		return true
	})
	return do(c, act, r, err, acts[kernel.Neighbor]{"add": c.k.AddNeighbor, "replace": c.k.ReplaceNeighbor, "del": c.k.DeleteNeighbor})
}

func (c *request) nexthop() error {
	act := c.next()
	h := kernel.Nexthop{IPv6: c.six}
	err := c.each(func(w string) bool {
		switch w {
		case "id":
			h.ID = uint32(c.number())
		case "via":
			h.Gateway = c.addr()
			h.IPv6 = h.Gateway.Is6()
		case "dev":
			h.Index = c.device()
		case "proto":
			h.Protocol = uint8(c.number())
		case "onlink":
			h.Onlink = true
		case "encap":
			h.Encap = c.encap()
		case "blackhole":
			h.Blackhole = true
		case "group":
			for m := range strings.SplitSeq(c.next(), "/") {
				id, weight, _ := strings.Cut(m, ",")
				n, err := strconv.ParseUint(id, 10, 32)
				if err != nil {
					c.fail("%q is no number", id)
				}
				w, err := strconv.Atoi(weight)
				if err != nil {
					w = 1
				}
				h.Group = append(h.Group, kernel.NexthopMember{ID: uint32(n), Weight: w})
			}
		default:
			return false
		}
		return true
	})
	return do(c, act, h, err, acts[kernel.Nexthop]{"add": c.k.AddNexthop, "replace": c.k.ReplaceNexthop,
		"del": func(ns kernel.NS, h kernel.Nexthop) error { return c.k.DeleteNexthop(ns, h.ID) }})
}

func (c *request) fdb() error {
	act := c.next()
	e := kernel.FDBEntry{MAC: c.next()}
	index, master := 0, false
	err := c.each(func(w string) bool {
		switch w {
		case "dev":
			index = c.device()
		case "master":
			master = true
		case "static", "self", "permanent":
		case "vlan":
			e.VLAN = c.number()
		case "dst":
			e.Address = c.addr()
		default:
			return false
		}
		return true
	})
	if err != nil {
		return err
	}
	e.Table = index
	if master {
		l, err := c.k.LinkByIndex(c.ns, index)
		if err != nil {
			return err
		}
		e.Table, e.Port = l.Master, index
	}
	return do(c, act, e, nil, acts[kernel.FDBEntry]{"add": c.k.AddFDBEntry, "append": c.k.AddFDBEntry, "del": c.k.DeleteFDBEntry})
}

func (c *request) sysctl() error {
	name, value, set := strings.Cut(c.next(), "=")
	if !set {
		return errors.New("want a setting as name=value")
	}
	return c.k.SetSysctl(c.ns, strings.ReplaceAll(name, ".", "/"), value)
}
