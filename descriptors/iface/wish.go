package iface

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// wish is one link as it shall be, with all names found in the kernel.
type wish struct {
	key   scheduler.Key
	value *models.Interface
	host  string
	place selector.Place
	mark  string

	master kernel.LinkRef // zero: none
	parent kernel.LinkRef // zero: none
	bonded bool           // master is a bond
	peer   *wish          // of a veth; its master is not looked up

	// there: the link was finished before, and what is set once is left to others.
	there bool

	// recorded is what the ledger said before the operation.
	recorded *kernel.Entry
}

// newWish makes a wish without the links that it stands on.
func (d *iface) newWish(k scheduler.Key, v *models.Interface, place selector.Place) *wish {
	w := &wish{key: k, value: v, place: place, host: v.EffectiveHostName(string(k)), mark: d.Owner.Mark(string(k))}
	if e, ok := d.Owner.Entry(string(k)); ok {
		w.recorded = &e
	}
	return w
}

// resolve finds everything that the value names.
func (d *iface) resolve(ctx context.Context, k scheduler.Key, v *models.Interface) (*wish, error) {
	place, err := d.Places.Resolve(ctx, v.GetNamespace())
	if err != nil {
		return nil, err
	}
	w := d.newWish(k, v, place)
	if v.GetMaster() != "" {
		if w.master, err = kind.LinkOf(d.Interfaces, v.GetMaster()); err != nil {
			return nil, err
		}
		if w.master.NS != place.NS {
			return nil, d.apart(v)
		}
		if w.bonded, err = d.isBond(keyOf(v.GetMaster()), w.master); err != nil {
			return nil, err
		}
	}
	if v.Parent() != "" {
		if w.parent, err = kind.LinkOf(d.Interfaces, v.Parent()); err != nil {
			return nil, err
		}
		if v.Tunnel() != nil && w.parent.NS != place.NS {
			return nil, d.tunnelApart(v)
		}
	}
	return w, nil
}

// apart: the kernel joins only links of one namespace.
func (d *iface) apart(v *models.Interface) error {
	master, _, _ := d.Interfaces.Get(keyOf(v.GetMaster()))
	return scheduler.Terminal(fmt.Errorf(
		"master %s lives in %s and this interface in %s; both must live in one namespace (a veth can reach from one to the other)",
		v.GetMaster(), master.GetNamespace().Text(), v.GetNamespace().Text()))
}

// entry is what the ledger shall say.
func (w *wish) entry() kernel.Entry {
	return kernel.Entry{
		ID: string(w.key), NS: w.place.NS, NSPath: w.place.Path,
		Value: models.Encode(w.value), Mark: w.mark,
	}
}

// spec is what the kernel is asked for. The alias is not in it: the kernel
// ignores it at birth, so it is the next step.
func (w *wish) spec(group uint32) (kernel.LinkSpec, error) {
	s := kernel.LinkSpec{
		Name: w.host, Group: group, Up: w.value.IsEnabled(), MTU: int(w.value.GetMtu()),
		MAC: strings.ToLower(w.value.GetMacAddress()), Master: w.master.Index,
	}
	if w.bonded { // it joins when it is there: it must be down for that
		s.Up, s.Master = false, 0
	}
	err := typeOf(w.value).spec(w, &s)
	return s, err
}

// patch is what must be changed of a link that we made to be as wished; needed
// is false if nothing.
func (w *wish) patch(l kernel.Link, group uint32) (p kernel.LinkPatch, needed bool) {
	v := w.value
	left := func(field string) bool { return w.there && v.SetsOnce(field) }
	set(&p.Alias, w.mark, l.Alias, &needed)
	set(&p.Group, group, l.Group, &needed)
	set(&p.Name, w.host, l.Name, &needed)
	if v.GetMacAddress() != "" && !left("mac_address") {
		set(&p.MAC, strings.ToLower(v.GetMacAddress()), l.MAC, &needed)
	}
	if v.GetMtu() != 0 && !left("mtu") {
		set(&p.MTU, int(v.GetMtu()), l.MTU, &needed)
	}
	if !left("master") {
		set(&p.Master, w.master.Index, l.Master, &needed)
	}
	set(&p.Up, v.IsEnabled(), l.Up, &needed)
	switch {
	case v.GetBridge() != nil:
		p.Bridge = patchBridge(l.Bridge, v.GetBridge())
	case v.GetBond() != nil:
		p.Bond = patchBond(l.Bond, v.GetBond())
	case v.Tunnel() != nil:
		p.Tunnel = patchTunnel(l.Tunnel, w)
	case v.GetGeneve() != nil:
		p.Geneve = patchGeneve(l.Geneve, v.GetGeneve())
	}
	p.Port = patchPort(l.Port, w.askedOfBridge())
	return p, needed || p.Port != nil || p.Bridge != nil || p.Bond != nil || p.Tunnel != nil || p.Geneve != nil
}

func set[T comparable](field **T, want, is T, needed *bool) {
	if want != is {
		*field, *needed = &want, true
	}
}

// explain adds what helps people to an error of the kernel.
func explain(w *wish, doing string, err error) error {
	err = fmt.Errorf("%s %s in %s: %w", doing, w.host, w.value.GetNamespace().Text(), err)
	if errors.Is(err, kernel.ErrUnsupported) {
		return scheduler.Unsupported(fmt.Errorf("%w; the running kernel has no support for %s interfaces or for one of the settings", err, w.value.LinkType()))
	}
	return err
}
