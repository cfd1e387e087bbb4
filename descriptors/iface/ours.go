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

// ours reports whether a link is that of the key. If the ledger identifies the link it
// decides, see [kernel.Owner.IsLink]: a changed mark does not make it foreign, and a copy of
// the mark makes no other link ours, unless there is nothing at the recorded place. Else
// enough is either of
//
//   - the entry of a link that was taken over;
//   - our alias, which names the key;
//   - no alias, our group, and a ledger entry with this namespace and name: a
//     creation that was cut short;
//   - our group, and this process made or found the link itself: somebody
//     changed its alias since.
func (d *iface) ours(k scheduler.Key, l kernel.Link, recorded *kernel.Entry) bool {
	switch {
	case taken(recorded, l):
		return true
	case recorded != nil && recorded.Identified():
		return d.Owner.IsLink(*recorded, l) || d.Owner.Resembles(*recorded, l) && !d.inPlace(*recorded)
	case l.Alias == d.Owner.Mark(string(k)):
		return !d.Owner.IsCopy(l)
	case l.Group != d.Owner.Group():
		return false
	case d.holds(l.Ref(), k):
		return true
	}
	return l.Alias == "" && recorded != nil && !recorded.Adopted() && recorded.NS == l.NS &&
		kind.InterfaceOf(*recorded).EffectiveHostName(string(k)) == l.Name
}

// inPlace reports whether the link of an entry is where that says, or may be.
func (d *iface) inPlace(e kernel.Entry) bool {
	if _, err := e.Find(d.Kernel); err != nil {
		return !kernel.IsGone(err)
	}
	l, err := d.Kernel.LinkByIndex(e.NS, e.Index)
	return err == nil && d.Owner.IsLink(e, l) || err != nil && !kernel.IsGone(err)
}

// marked reports whether a managed link still has its mark.
func (d *iface) marked(k scheduler.Key, l kernel.Link) bool {
	e, recorded := d.Owner.Entry(string(k))
	return !recorded || !d.Owner.IsLink(e, l) || d.Owner.Marked(string(k), l)
}

// isCopy reports whether a link has a copy of the mark of another, managed link. The copy is
// recorded, so the link stays foreign even after the managed one is gone.
func (d *iface) isCopy(l kernel.Link) bool {
	key, marked := d.Owner.MarkedKey(l.Alias)
	if !marked || !strings.HasPrefix(key, prefix) {
		return false
	}
	e, recorded := d.Owner.Entry(key)
	if !recorded || !e.Identified() || d.ours(scheduler.Key(key), l, &e) {
		return false
	}
	if owner, ours := d.Owner.LinkKey(l); ours && owner != "" {
		return false // it is ours, and has the mark of another key of ours
	}
	if d.Owner.NoteCopy(l) && d.Copied != nil {
		d.Copied(l, key)
	}
	return true
}

// saw records the identity of a managed link in the ledger.
func (d *iface) saw(k scheduler.Key, l kernel.Link) {
	d.Owner.Saw(kernel.OwnLink{Link: l, Key: string(k)})
}

// ownerOf names who made a link, as far as it can be told.
func (d *iface) ownerOf(l kernel.Link) string {
	if key, ours := d.Owner.LinkKey(l); ours && key != "" {
		return key
	}
	if key, ours := d.Owner.MarkedKey(l.Alias); ours {
		return "somebody else, with a copy of the mark of " + key
	}
	if l.Alias != "" {
		return l.Alias
	}
	return "somebody else"
}

// holder is another key whose link it is: by the ledger, or by its mark. The
// loopback of a namespace bears the mark of that and is nobody's.
func (d *iface) holder(k scheduler.Key, l kernel.Link) scheduler.Key {
	if key, ours := d.Owner.LinkKey(l); ours && strings.HasPrefix(key, prefix) && key != string(k) {
		if e, recorded := d.Owner.Entry(key); !recorded || !e.Adopted() { // what was adopted is known below
			return scheduler.Key(key)
		}
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
	if key, ours := d.Owner.LinkKey(l); ours && key != "" {
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
		Addresses: hint.GetAddresses(), LinkOnly: hint.GetLinkOnly(), AddressesExclusive: hint.GetAddressesExclusive(), SetOnce: hint.GetSetOnce(),
		Adopt: d.isTaken(k, l) || !d.marked(k, l),
	}
	if l.Master != 0 {
		v.Master = d.linkName(kernel.LinkRef{NS: l.NS, Index: l.Master}, "")
	}
	v.BridgePort = d.readPort(l, hint.GetBridgePort())
	v.AlternativeNames = d.readAltNames(k, l, hint)
	d.readOffloads(l, v, hint.GetFeatures(), hint.GetRings().GetRx() != 0, hint.GetRings().GetTx() != 0)
	d.readAccepts(k, l, v, hint)
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
