package iface

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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

	// stale are alternative names that it had by an earlier wish.
	stale []string

	// recorded is what the ledger said before the operation; taken is the same of a link that
	// was taken over and has no mark, else nil.
	recorded *kernel.Entry
	taken    *kernel.Entry

	// before are the values that the link had, or may have had, so far.
	before []*models.Interface

	// link is what has been made, far the other end if that is a new cable, and err why it
	// could not be, or not as wished.
	link kernel.Link
	far  *kernel.Link
	err  error
	// incomplete is the error of settings that the device refused; all others are applied.
	incomplete error
	// unread: link is the far end of a new cable, as it was made.
	unread bool
}

// newWish makes a wish without the links that it stands on.
func (d *iface) newWish(k scheduler.Key, v *models.Interface, place selector.Place) *wish {
	w := &wish{key: k, value: v, place: place, host: v.EffectiveHostName(string(k)), mark: d.Owner.Mark(string(k))}
	if e, ok := d.Owner.Entry(string(k)); ok {
		w.recorded = &e
		if e.Adopted() && !adopts(v) {
			w.taken = &e
		}
	}
	w.follow(nil)
	return w
}

// follow notes what the link had so far, by the ledger and, if it is known, by its last value.
func (w *wish) follow(from *models.Interface) {
	w.before = earlier(w.recorded, from)
	w.stale = w.staleAltNames()
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
	e := kernel.Entry{
		ID: string(w.key), NS: w.place.NS, NSPath: w.place.Path,
		Value: models.Encode(w.value), Mark: w.mark,
	}
	if w.taken != nil {
		e.Mark, e.Index, e.Prior = w.taken.Mark, w.taken.Index, w.taken.Prior
	} else if w.there && w.recorded != nil && w.recorded.Identified() && w.recorded.NS == e.NS {
		e.Index, e.Identity = w.recorded.Index, w.recorded.Identity
	}
	return e
}

// entryBefore is what the ledger shall say while a link is changed: names that it is about to
// lose are ours until then, and what it is no longer to be named is as it was. Of WireGuard's endpoints it says nothing: whether the kernel has
// the new ones is not seen from them.
func (w *wish) entryBefore() kernel.Entry {
	before := *w
	before.value = w.dropped(false)
	if w.value.GetWireguard() != nil {
		before.value = before.value.WithoutEndpoints()
	}
	if len(w.stale) > 0 {
		before.value = before.value.WithAlternativeNames(w.stale)
	}
	return before.entry()
}

// spec is what the kernel is asked for. The alias is not in it: the kernel
// ignores it at birth, so it is the next step.
func (w *wish) spec(group uint32) (kernel.LinkSpec, error) {
	s := kernel.LinkSpec{
		Name: w.host, Group: group, Up: w.value.IsEnabled(), MTU: int(w.value.GetMtu()),
		MAC: strings.ToLower(w.value.GetMacAddress()), Master: w.master.Index, Accepts: acceptsOf(w.value),
	}
	if w.value.GetVeth() != nil {
		s.Up = false // the patch that gives the end its mark sets it up: nothing refuses that
	}
	if w.bonded { // it joins when it is there: it must be down for that
		s.Up, s.Master = false, 0
	}
	err := typeOf(w.value).spec(w, &s)
	return s, err
}

// patch is what must be changed of a link that we made to be as wished; the zero patch if
// nothing.
func (w *wish) patch(l kernel.Link, group uint32) (p kernel.LinkPatch) {
	v := w.dropped(true)
	left := func(field string) bool { return w.there && v.SetsOnce(field) }
	if w.taken == nil {
		set(&p.Alias, w.mark, l.Alias)
		set(&p.Group, group, l.Group)
	}
	set(&p.Name, w.host, l.Name)
	if v.GetMacAddress() != "" && !left("mac_address") {
		set(&p.MAC, strings.ToLower(v.GetMacAddress()), l.MAC)
	}
	if v.GetMtu() != 0 && !left("mtu") {
		set(&p.MTU, int(v.GetMtu()), l.MTU)
	}
	if !left("master") {
		set(&p.Master, w.master.Index, l.Master)
	}
	set(&p.Up, v.IsEnabled(), l.Up)
	p.Port = patchPort(l.Port, v.GetBridgePort())
	full := *w
	full.value = v
	typeOf(v).patch(&full, l, &p)
	return p
}

func set[T comparable](field **T, want, is T) {
	if want != is {
		*field = &want
	}
}

// lacking is what of the wanted settings is not so already, nil if nothing. Settings are
// structs of pointers, of which nil is no wish.
func lacking[S comparable](want S, actual *S) *S {
	if actual != nil {
		w, a := reflect.ValueOf(&want).Elem(), reflect.ValueOf(*actual)
		for i := range w.NumField() {
			if reflect.DeepEqual(w.Field(i).Interface(), a.Field(i).Interface()) {
				w.Field(i).SetZero()
			}
		}
	}
	var none S
	if want == none {
		return nil
	}
	return &want
}

// explain adds what helps people to an error of the kernel.
func explain(w *wish, doing string, err error) error {
	err = fmt.Errorf("%s %s in %s: %w", doing, w.host, w.value.GetNamespace().Text(), err)
	if errors.Is(err, kernel.ErrUnsupported) {
		return scheduler.Unsupported(err)
	}
	return err
}
