package nexthop

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// retrieve reads the nexthops that the ledger names.
func (d *nexthop) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	dumps, everyone := owned.Dumps[byID]{Read: d.ours}, owned.Dumps[byID]{Read: d.everyone}
	return d.objects.Retrieve(ctx, s, func(e kernel.Entry) (*models.Nexthop, kernel.LinkRef, error) {
		ref := kernel.LinkRef{NS: e.NS}
		all, err := dumps.Of(e.NS)
		if err != nil {
			return nil, ref, fmt.Errorf("read the nexthops of its namespace: %w", err)
		}
		n, there := all[idOf(e)]
		if !there {
			n, there = d.mended(e, &everyone, s.ReadOnly)
		}
		h, _ := d.have.Get(e.NS, idOf(e))
		if !there || h.there && h.key != scheduler.Key(e.ID) && d.isWanted(h.key) {
			return nil, ref, kernel.ErrNotExist
		}
		like, err := models.DecodeValue[*models.Nexthop](e.Value)
		if err != nil {
			return nil, ref, err
		}
		if !s.ReadOnly {
			d.note(e.NS, held{scheduler.Key(e.ID), n, true})
		}
		ref.Index = n.Index
		return d.value(ref, n, like), ref, nil
	})
}

// byID are the nexthops of a namespace that carry our protocol number.
type byID map[uint32]kernel.Nexthop

func (d *nexthop) ours(ns kernel.NS) (byID, error) {
	all, err := d.Kernel.Nexthops(ns)
	ours := byID{}
	for _, n := range all {
		if d.bearsOurs(n) {
			ours[n.ID] = n
		}
	}
	return ours, err
}

// everyone are all nexthops of a namespace.
func (d *nexthop) everyone(ns kernel.NS) (byID, error) {
	all, err := d.Kernel.Nexthops(ns)
	list := byID{}
	for _, n := range all {
		list[n.ID] = n
	}
	return list, err
}

// mended is the nexthop that an entry says was made and whose protocol number others have
// changed. Routes that lead through it stay: it gets its number back in place, unless the
// reading is read-only. One that says something else than was made is another one.
func (d *nexthop) mended(e kernel.Entry, everyone *owned.Dumps[byID], readOnly bool) (n kernel.Nexthop, ours bool) {
	if e.Identity == nil {
		return n, false
	}
	all, err := everyone.Of(e.NS)
	n, there := all[idOf(e)]
	like, invalid := models.DecodeValue[*models.Nexthop](e.Value)
	if err != nil || !there || n.More || invalid != nil {
		return n, false
	}
	found := d.value(kernel.LinkRef{NS: e.NS, Index: n.Index}, n, like)
	if compare(scheduler.Key(e.ID), found, like).Change != scheduler.Same {
		return n, false
	}
	n.Protocol = d.Owner.Protocol()
	if !readOnly && d.Kernel.ReplaceNexthop(e.NS, n) != nil {
		return n, false // the next reading tries again
	}
	return n, true
}

// value is a nexthop as a value, faithful to the kernel. The name of its namespace, which
// the kernel does not know, is that of the value that it was made for.
func (d *nexthop) value(ref kernel.LinkRef, n kernel.Nexthop, like *models.Nexthop) *models.Nexthop {
	v := &models.Nexthop{Id: n.ID, Gateway: text(n.Gateway), Onlink: n.Onlink, Blackhole: n.Blackhole, Encap: kind.EncapFrom(n.Encap)}
	if n.Index != 0 {
		v.Interface = d.Owner.LinkName(d.Kernel, d.Names, ref)
	} else {
		v.Namespace = like.GetNamespace()
	}
	if len(n.Group) > 0 {
		v.Group = d.members(ref.NS, n.Group)
		return v
	}
	if v.Family = "ipv4"; n.IPv6 {
		v.Family = "ipv6"
	}
	return v
}

// members are those of a group by name. One that is not ours gets a name that none can have.
func (d *nexthop) members(ns kernel.NS, group []kernel.NexthopMember) (list []*models.NexthopMember) {
	names := map[uint32]string{}
	for _, e := range d.Owner.Entries(models.KindNexthop + "/") {
		if e.NS == ns {
			names[idOf(e)] = strings.TrimPrefix(e.ID, models.KindNexthop+"/")
		}
	}
	for _, m := range group {
		name, known := names[m.ID]
		if !known {
			name = fmt.Sprintf("?%d", m.ID)
		}
		list = append(list, &models.NexthopMember{Nexthop: name, Weight: uint32(m.Weight)})
	}
	return list
}

// watch turns the kernel's events into keys. The kernel says nothing of the nexthops that
// go with a link, or because it is down or has no carrier, and nothing of the groups that
// lose them: so what it says of a link counts as news of both.
func (d *nexthop) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return d.objects.Follow(ctx, d.Kernel, d.heard, notify)
}

func (d *nexthop) heard(e kernel.Event) owned.News {
	switch {
	case e.Lost, e.Gone:
		return owned.NewsOf(keysOf(d.in(e.NS, e.Gone))...)
	case e.Nexthop != nil:
		h, known := d.have.Get(e.NS, e.Nexthop.ID)
		if !known || !e.Deleted && h.there && h.nexthop.Equal(*e.Nexthop) {
			return owned.News{}
		}
		return d.news(e.NS, h)
	case e.Link != nil:
		return d.news(e.NS, over(d.in(e.NS, false), e.Link.Index)...)
	}
	return owned.News{}
}

// in are the nexthops of a namespace. If it is gone all are forgotten.
func (d *nexthop) in(ns kernel.NS, gone bool) []held {
	return d.have.Of(func(at kernel.NS) bool { return at == ns }, gone)
}

// over are those of the nexthops that are there whose packets leave by a link, and their
// groups.
func over(all []held, index int) (list []held) {
	ids := map[uint32]bool{}
	for _, h := range all {
		if h.there && h.nexthop.Index == index {
			ids[h.nexthop.ID] = true
			list = append(list, h)
		}
	}
	for _, h := range all {
		if h.there && slices.ContainsFunc(h.nexthop.Group, func(m kernel.NexthopMember) bool { return ids[m.ID] }) {
			list = append(list, h)
		}
	}
	return list
}

// news are the keys of nexthops of which nothing is believed until they are read.
func (d *nexthop) news(ns kernel.NS, all ...held) owned.News {
	for _, h := range all {
		h.there = false
		d.note(ns, h)
	}
	return owned.NewsOf(keysOf(all)...)
}

func keysOf(all []held) (keys []scheduler.Key) {
	for _, h := range all {
		keys = append(keys, h.key)
	}
	slices.Sort(keys)
	return keys
}
