package iface

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// ours reports whether a link is that of the key. Enough is either of
//
//   - our alias, which names the key;
//   - no alias, our group, and a ledger entry with this namespace and name: a
//     creation that was cut short;
//   - our group, and this process made or found the link itself: somebody
//     changed its alias since;
//   - the entry of a link that was taken over.
func (d *iface) ours(k scheduler.Key, l kernel.Link, recorded *kernel.Entry) bool {
	switch {
	case l.Alias == d.Owner.Mark(string(k)), taken(recorded, l):
		return true
	case l.Group != d.Owner.Group():
		return false
	case d.holds(l.Ref(), k):
		return true
	}
	return l.Alias == "" && recorded != nil && !recorded.Adopted() && recorded.NS == l.NS &&
		kind.InterfaceOf(*recorded).EffectiveHostName(string(k)) == l.Name
}

// ownerOf names who made a link, as far as it can be told.
func (d *iface) ownerOf(l kernel.Link) string {
	if key, ours := d.Owner.MarkedKey(l.Alias); ours && key != "" {
		return key
	}
	if l.Alias != "" {
		return l.Alias
	}
	return "somebody else"
}

// holder is another key whose link it is: by its mark, or because it was adopted. The
// loopback of a namespace bears the mark of that and is nobody's.
func (d *iface) holder(k scheduler.Key, l kernel.Link) scheduler.Key {
	if key, ours := d.Owner.MarkedKey(l.Alias); ours && strings.HasPrefix(key, prefix) && key != string(k) {
		return scheduler.Key(key)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.links[l.Ref()]; h != nil && !h.dead && h.key != k {
		return h.key
	}
	return ""
}

// take has a link that is about to be adopted be that of the key, unless another key has it,
// which claims cannot see where two selectors mean one namespace. back takes that back.
func (d *iface) take(w *wish, l kernel.Link) (back func(), err error) {
	ref := l.Ref()
	d.mu.Lock()
	h := d.links[ref]
	free := h == nil || h.dead
	if free {
		d.know(ref, w.key)
	}
	d.mu.Unlock()
	back = func() {
		if free {
			d.release(ref)
		}
	}
	if d.holder(w.key, l) != "" {
		back()
		return nil, d.conflict(w, l)
	}
	return back, nil
}

// conflict says that another link stands where ours should: that of another key, for
// which we wait, or a foreign one.
func (d *iface) conflict(w *wish, l kernel.Link) error {
	name := l.Name
	if slices.Contains(l.AltNames, w.host) {
		name = w.host
	}
	if key := d.holder(w.key, l); key != "" {
		return scheduler.Blocked(key, fmt.Errorf("the name %s in %s is in use by %s", name, w.value.GetNamespace().Text(), key))
	}
	if name != l.Name {
		return scheduler.Conflict(d.ownerOf(l), fmt.Errorf(
			"%s is an alternative name of the %s %s in %s, which is not ours; choose another host_name",
			name, l.Type, l.Name, w.value.GetNamespace().Text()))
	}
	return scheduler.Conflict(d.ownerOf(l), fmt.Errorf(
		"a %s called %s is there already in %s and is not ours; choose another host_name, or adopt it with the type existing",
		l.Type, l.Name, w.value.GetNamespace().Text()))
}

// linkName is the logical name of a link. For a link that is not ours it is
// one that no interface can have, so that it differs from all.
func (d *iface) linkName(ref kernel.LinkRef, hint string) string {
	if name, ok := d.Names.Of(ref); ok {
		return name
	}
	if hint != "" {
		if _, at, ok := d.Interfaces.Get(keyOf(hint)); !ok || at == ref {
			return hint
		}
	}
	l, err := d.Kernel.LinkByIndex(ref.NS, ref.Index)
	if err != nil {
		return fmt.Sprintf("?%d", ref.Index)
	}
	if key, ours := d.Owner.MarkedKey(l.Alias); ours && key != "" {
		return nameOf(scheduler.Key(key))
	}
	return "?" + l.Name
}

// value is a link as a value of the key, faithful to the kernel. in is how its
// namespace is called; hint is what is believed or wanted, for what the kernel
// does not show.
func (d *iface) value(k scheduler.Key, l kernel.Link, in *models.Namespace, hint *models.Interface) *models.Interface {
	if hint != nil && adopts(hint) {
		return d.adoptedValue(k, l, in, hint)
	}
	up := l.Up
	v := &models.Interface{
		Namespace: in, HostName: l.Name, Enabled: &up, Mtu: uint32(l.MTU), MacAddress: l.MAC,
		Addresses: hint.GetAddresses(), LinkOnly: hint.GetLinkOnly(), SetOnce: hint.GetSetOnce(), Adopt: d.isTaken(k, l),
	}
	if l.Master != 0 {
		v.Master = d.linkName(kernel.LinkRef{NS: l.NS, Index: l.Master}, "")
	}
	v.BridgePort = d.readPort(l, hint.GetBridgePort())
	v.AlternativeNames = d.readAltNames(k, l, hint)
	d.readOffloads(l, v, hint.GetFeatures(), hint.GetRings().GetRx() != 0, hint.GetRings().GetTx() != 0)
	d.readType(l, v, hint)
	d.hideUnnamed(k, v, hint)
	return v
}

// holds reports whether we know the link as that of the key.
func (d *iface) holds(ref kernel.LinkRef, k scheduler.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.links[ref]
	return h != nil && h.key == k && !h.dead
}

// busy keeps events about a link of ours back until settle. A new link is noted
// by it before anything else happens, so that no event can be missed.
func (d *iface) busy(ref kernel.LinkRef, k scheduler.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.links[ref]; h != nil && h.key == k && !h.dead {
		h.busy = true
		return
	}
	d.know(ref, k)
}

// know begins to know a link as that of a key; d.mu is held.
func (d *iface) know(ref kernel.LinkRef, k scheduler.Key) {
	d.links[ref] = &held{key: k, busy: true}
	d.Names.Put(ref, nameOf(k))
}

// settle ends an operation that left the link as v says; nil means that it
// failed. If the last event that came meanwhile shows another link, it is read
// once: that may have been somebody else's doing. What comes later is judged then.
func (d *iface) settle(ref kernel.LinkRef, v *models.Interface) {
	d.mu.Lock()
	h := d.links[ref]
	if h == nil {
		d.mu.Unlock()
		return
	}
	told := h.meanwhile
	h.value, h.busy, h.meanwhile = v, false, meanwhile{}
	notify, key := d.notify, h.key
	d.mu.Unlock()
	if notify == nil || told.as(func(l kernel.Link) bool { return v != nil && d.so(key, l, v) }) || d.stillSo(key, ref, v) {
		return
	}
	notify(key)
}

// release forgets a link that is no longer ours.
func (d *iface) release(ref kernel.LinkRef) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(ref)
}

// dying forgets a link that is about to be deleted. While somebody watches, it
// stays known as dead until the kernel has said its last word of it: an up
// link goes down first, under our mark.
func (d *iface) dying(ref kernel.LinkRef) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(ref)
	if d.notify != nil {
		d.links[ref] = &held{dead: true}
	}
}
