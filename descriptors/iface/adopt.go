package iface

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// adopts reports whether the value is of a link that somebody else made.
func adopts(v *models.Interface) bool { return v.GetExisting() != nil || v.GetLoopback() != nil }

// existing is any link that others made; it must be there.
type existing struct{ plain }

func (existing) needs(k scheduler.Key, v *models.Interface) []scheduler.Need {
	host := v.EffectiveHostName(string(k))
	n := scheduler.On(selector.LinkKey(v.GetNamespace(), host),
		fmt.Sprintf("a link called %s in %s", host, v.GetNamespace().Text()))
	return []scheduler.Need{scheduler.Project(n, func(_ *models.HostLink, ref kernel.LinkRef) string { return ref.String() })}
}
func (existing) spec(*wish, *kernel.LinkSpec) error { return errAdopted }

// loopback is the link lo, which every namespace has.
type loopback struct{ plain }

func (loopback) spec(*wish, *kernel.LinkSpec) error { return errAdopted }

var errAdopted = errors.New("links of this type are not made but found")

// settings are what an adoption may change of a link. As a wish, what is unset
// is left alone; as the ledger's prior, it never was changed.
type settings struct {
	Up     *bool   `json:"up,omitempty"`
	MTU    *int    `json:"mtu,omitempty"`
	MAC    *string `json:"mac,omitempty"`
	Master *string `json:"master,omitempty"` // by name in the kernel, "" for none

	AltNames named `json:"alternative_names,omitempty"`
	Features named `json:"features,omitempty"`
	// The rings.
	RX *uint32 `json:"rx,omitempty"`
	TX *uint32 `json:"tx,omitempty"`
	// What it accepts, by the names of [acceptFields].
	Accepts numbers `json:"accepts,omitempty"`
	// BondUp is Up before the link joined a bond, which set it up. It is no wish.
	BondUp *bool `json:"bond_up,omitempty"`
}

// asked is what the value names. A loopback is up unless it says otherwise.
func (d *iface) asked(v *models.Interface) (s settings) {
	if v.Enabled != nil || v.GetLoopback() != nil {
		up := v.IsEnabled()
		s.Up = &up
	}
	if v.GetMtu() != 0 {
		mtu := int(v.GetMtu())
		s.MTU = &mtu
	}
	if v.GetMacAddress() != "" {
		mac := strings.ToLower(v.GetMacAddress())
		s.MAC = &mac
	}
	if v.GetMaster() != "" {
		name := v.GetMaster()
		if _, ref, ok := d.Interfaces.Get(keyOf(name)); ok {
			if l, err := d.Kernel.LinkByIndex(ref.NS, ref.Index); err == nil {
				name = l.Name
			}
		}
		s.Master = &name
	}
	s.AltNames, s.Features = askedAltNames(v), v.GetFeatures()
	s.RX, s.TX = asked(v.GetRings().GetRx()), asked(v.GetRings().GetTx())
	s.Accepts = askedAccepts(v)
	return s
}

// asked is a number that is not left to others.
func asked(n uint32) *uint32 {
	if n == 0 {
		return nil
	}
	return &n
}

// current reads the settings that a link has.
func (d *iface) current(l kernel.Link) settings {
	master := ""
	if l.Master != 0 {
		if m, err := d.Kernel.LinkByIndex(l.NS, l.Master); err == nil {
			master = m.Name
		}
	}
	return settings{Up: &l.Up, MTU: &l.MTU, MAC: &l.MAC, Master: &master}
}

// differAdopted compares strictly: a field that is set in the actual value was
// changed by us, and is given back when it is no longer asked for.
func differAdopted(actual, desired *models.Interface) (d kind.Differences) {
	was, is := actual.GetEnabled(), desired.IsEnabled()
	asked := desired.Enabled != nil || desired.GetLoopback() != nil
	changed := actual.Enabled != nil || actual.GetLoopback() != nil
	if actual.GetLoopback() != nil {
		was = actual.IsEnabled()
	}
	d.May(asked != changed || asked && was != is, "enabled", was, orBack(fmt.Sprint(is), !asked))
	mtu := fmt.Sprint(desired.GetMtu())
	d.May(actual.GetMtu() != desired.GetMtu(), "mtu", actual.GetMtu(), orBack(mtu, mtu == "0"))
	macWas, macIs := strings.ToLower(actual.GetMacAddress()), strings.ToLower(desired.GetMacAddress())
	d.May(macWas != macIs, "mac_address", macWas, orBack(macIs, macIs == ""))
	master := desired.GetMaster()
	d.May(actual.GetMaster() != master, "master", actual.GetMaster(), orBack(master, master == ""))
	differAltNames(&d, actual.GetAlternativeNames(), desired.GetAlternativeNames(), orBack("", true))
	differOffloads(&d, actual, desired)
	differAdoptedAccepts(&d, actual, desired)
	return d
}

// orBack says that a field is given back when it is unset.
func orBack(s string, unset bool) string {
	if unset {
		return "as it was before"
	}
	return s
}

// adoption is one link on its way to become ours to change.
type adoption struct {
	w     *wish
	link  kernel.Link
	want  settings
	prior settings // before we ever touched it
	entry kernel.Entry
}

// prepareAdoption finds the link, which nobody else may get from here on.
func (d *iface) prepareAdoption(ctx context.Context, w *wish) (job owned.Job[kernel.LinkRef], err error) {
	l, err := d.Kernel.Link(w.place.NS, w.host)
	if err != nil {
		return job, explain(w, "read", err)
	}
	a, err := d.adoptionOf(w, l)
	if err != nil {
		return job, err
	}
	back, err := d.take(w, l)
	if err != nil {
		return job, err
	}
	return owned.Job[kernel.LinkRef]{Entries: []kernel.Entry{a.entry}, Cancel: back, Make: func() (kernel.LinkRef, error) {
		if err := ctx.Err(); err != nil {
			back()
			return kernel.LinkRef{}, err
		}
		ref, err := d.adopt(a)
		return ref, cmp.Or(err, w.incomplete)
	}}, nil
}

func (d *iface) adoptionOf(w *wish, l kernel.Link) (*adoption, error) {
	a := &adoption{w: w, link: l, want: d.asked(w.value), prior: prior(w.recorded, l)}
	now := d.current(l)
	a.prior.remember(a.want, now)
	a.prior.AltNames = a.prior.AltNames.remember(a.want.AltNames, currentAltNames(l))
	a.prior.Accepts = a.prior.Accepts.remember(a.want.Accepts, currentAccepts(l))
	if err := d.rememberOffloads(&a.prior, a.want, l); err != nil {
		return a, explain(w, "read", err)
	}
	if w.bonded && l.Master != w.master.Index && a.want.Up == nil && a.prior.BondUp == nil {
		a.prior.BondUp = now.Up
	}
	a.entry = a.entryWith(a.prior)
	return a, nil
}

func (a *adoption) entryWith(p settings) kernel.Entry {
	e := a.w.entry().Adopt(a.link)
	e.Prior, _ = json.Marshal(p) // strings, numbers, booleans: cannot fail
	return e
}

// prior reads what the ledger kept of this very link.
func prior(e *kernel.Entry, l kernel.Link) (p settings) {
	if e != nil && e.Adopted() && e.NS == l.NS && e.Index == l.Index {
		if json.Unmarshal(e.Prior, &p) != nil {
			return settings{}
		}
	}
	return p
}

// remember keeps the current state of everything that is about to be changed
// for the first time.
func (s *settings) remember(want, current settings) {
	s.Up = first(s.Up, want.Up, current.Up)
	s.MTU = first(s.MTU, want.MTU, current.MTU)
	s.MAC = first(s.MAC, want.MAC, current.MAC)
	s.Master = first(s.Master, want.Master, current.Master)
}

func first[T any](kept, want, current *T) *T {
	if kept == nil && want != nil {
		return current
	}
	return kept
}

// adopt brings the link to what is asked.
func (d *iface) adopt(a *adoption) (kernel.LinkRef, error) {
	ref := a.link.Ref()
	d.busy(ref, a.w.key)
	err := d.change(a.link, a.want)
	if err == nil {
		err = d.setPort(a.w, a.link)
	}
	if err == nil {
		err = d.addAltNames(a.w.value, a.link)
	}
	if err == nil {
		err = d.setAccepts(a.link, a.want.Accepts)
	}
	if err != nil {
		d.settle(ref, nil)
		return ref, explain(a.w, "change", err)
	}
	d.setOffloads(a.w, a.link)
	if err := d.Owner.Hit("interface/adopted"); err != nil {
		return ref, err
	}
	d.settle(ref, a.w.value)
	return ref, nil
}

// readopt changes an adopted link: new fields are remembered and set, fields
// that are no longer named are given back.
func (d *iface) readopt(w *wish, l kernel.Link) (kernel.LinkRef, error) {
	was := settings{}
	if w.recorded != nil {
		was = d.asked(kind.InterfaceOf(*w.recorded))
	}
	a, err := d.adoptionOf(w, l)
	if err != nil {
		return l.Ref(), err
	}
	if err := d.Owner.Record(a.entry); err != nil {
		return l.Ref(), err
	}
	back, kept := a.prior.split(a.want)
	d.busy(l.Ref(), w.key)
	if err := d.giveBack(l, was, back); err != nil {
		d.settle(l.Ref(), nil)
		return l.Ref(), explain(w, "restore", err)
	}
	ref, err := d.adopt(a)
	if err != nil {
		return ref, err
	}
	return ref, cmp.Or(d.Owner.Record(a.entryWith(kept)), w.incomplete)
}

// split parts the remembered settings into those no longer asked for and the rest.
func (s settings) split(want settings) (back, kept settings) {
	back.Up, kept.Up = part(s.Up, want.Up)
	back.MTU, kept.MTU = part(s.MTU, want.MTU)
	back.MAC, kept.MAC = part(s.MAC, want.MAC)
	back.Master, kept.Master = part(s.Master, want.Master)
	back.AltNames, kept.AltNames = s.AltNames.split(want.AltNames)
	back.Features, kept.Features = s.Features.split(want.Features)
	back.Accepts, kept.Accepts = s.Accepts.split(want.Accepts)
	back.RX, kept.RX = part(s.RX, want.RX)
	back.TX, kept.TX = part(s.TX, want.TX)
	if want.Master == nil {
		back.BondUp = s.BondUp
	} else {
		kept.BondUp = s.BondUp
	}
	return back, kept
}

// named are settings of which each has a name: on or off, there or not.
type named map[string]bool

// remember keeps what those are now that are about to be changed for the first time.
func (n named) remember(want, current named) named {
	all := named{}
	for name := range want {
		all[name] = current[name]
	}
	maps.Copy(all, n)
	return all
}

func (n named) split(want named) (back, kept named) {
	back, kept = named{}, named{}
	for name, is := range n {
		if _, asked := want[name]; asked {
			kept[name] = is
		} else {
			back[name] = is
		}
	}
	return back, kept
}

func part[T any](s, want *T) (back, kept *T) {
	if want == nil {
		return s, nil
	}
	return nil, s
}

// giveBack restores what was before us, where the link still is as we set it:
// what somebody else changed since is theirs.
func (d *iface) giveBack(l kernel.Link, set, back settings) error {
	now := d.current(l)
	if back.Up == nil {
		back.Up = back.BondUp
	}
	if err := errors.Join(d.giveBackAltNames(l, back.AltNames), d.giveBackOffloads(l, set, back), d.giveBackAccepts(l, set.Accepts, back.Accepts)); err != nil {
		return err
	}
	return d.change(l, settings{
		Up:     mine(back.Up, set.Up, now.Up),
		MTU:    mine(back.MTU, set.MTU, now.MTU),
		MAC:    mine(back.MAC, set.MAC, now.MAC),
		Master: mine(back.Master, set.Master, now.Master),
	})
}

func mine[T comparable](back, set, now *T) *T {
	if back != nil && set != nil && now != nil && *set != *now {
		return nil
	}
	return back
}

// change sets what is named and is not so already.
func (d *iface) change(l kernel.Link, s settings) error {
	now := d.current(l)
	p := kernel.LinkPatch{Up: unless(s.Up, now.Up), MTU: unless(s.MTU, now.MTU), MAC: unless(s.MAC, now.MAC)}
	if name := unless(s.Master, now.Master); name != nil {
		index := 0
		if *name != "" {
			m, err := d.Kernel.Link(l.NS, *name)
			if err != nil {
				return fmt.Errorf("master %s: %w", *name, err)
			}
			index = m.Index
		}
		p.Master = &index
	}
	if moved, err := d.moveAdopted(&l, p); moved {
		if err != nil {
			return err
		}
		if s.Up == nil && l.Master == 0 {
			s.Up = now.Up // the bond has left it down
		}
		p = kernel.LinkPatch{Up: unless(s.Up, &l.Up), MTU: unless(s.MTU, &l.MTU)}
	} else if err != nil {
		return err
	}
	if p == (kernel.LinkPatch{}) {
		_, err := d.Kernel.LinkByIndex(l.NS, l.Index)
		return err
	}
	err := d.Kernel.SetLink(l.NS, l.Index, p)
	if err == nil {
		d.announceMoved(l, p)
	}
	return err
}

// unless drops a wish that is fulfilled.
func unless[T comparable](want, actual *T) *T {
	if want != nil && actual != nil && *want == *actual {
		return nil
	}
	return want
}

// setPort is how the bridge of an adopted link is to treat it. It ends with the membership,
// so there is nothing to give back.
func (d *iface) setPort(w *wish, l kernel.Link) error {
	asked := w.dropped(true).GetBridgePort()
	if asked == nil || w.value.GetMaster() == "" {
		return nil
	}
	if err := d.reread(&l); err != nil {
		return err
	}
	if p := patchPort(l.Port, asked); p != nil {
		if err := d.Kernel.SetLink(l.NS, l.Index, kernel.LinkPatch{Port: p}); err != nil {
			return err
		}
	}
	return d.setVLANs(w.value, l)
}

// moveAdopted takes a link into a bond or out of one, with its hardware address; false if
// neither of its masters is a bond.
func (d *iface) moveAdopted(l *kernel.Link, p kernel.LinkPatch) (bool, error) {
	master := l.Master
	if p.Master != nil {
		master = *p.Master
	} else if p.MAC == nil {
		return false, nil
	}
	bonded, err := d.inBond(*l)
	if err == nil && !bonded {
		to := *l
		to.Master = master
		bonded, err = d.inBond(to)
	}
	if err != nil || !bonded {
		return false, err
	}
	return true, d.move(l, master, p.MAC)
}

// abandon gives an adopted link back as it was.
func (d *iface) abandon(k scheduler.Key, l kernel.Link) error {
	e, ok := d.Owner.Entry(string(k))
	if !ok || !e.Adopted() || e.NS != l.NS || e.Index != l.Index {
		return nil
	}
	back := prior(&e, l)
	// The master may be gone by now, and with it the membership to restore.
	if back.Master != nil && *back.Master != "" {
		if _, err := d.Kernel.Link(l.NS, *back.Master); errors.Is(err, kernel.ErrNotExist) {
			back.Master = nil
		}
	}
	return d.giveBack(l, d.asked(kind.InterfaceOf(e)), back)
}

// adoptedValue shows of an adopted link what we have changed, as it is now.
func (d *iface) adoptedValue(k scheduler.Key, l kernel.Link, in *models.Namespace, hint *models.Interface) *models.Interface {
	v := &models.Interface{
		Namespace: in, HostName: nameAs(k, l, hint), Addresses: hint.GetAddresses(), LinkOnly: hint.GetLinkOnly(),
		AddressesExclusive: hint.GetAddressesExclusive(), Link: hint.GetLink(),
	}
	var changed settings
	if e, ok := d.Owner.Entry(string(k)); ok {
		changed = prior(&e, l)
	}
	if changed.Up != nil {
		up := l.Up
		v.Enabled = &up
	}
	if changed.MTU != nil {
		v.Mtu = uint32(l.MTU)
	}
	if changed.MAC != nil {
		v.MacAddress = l.MAC
	}
	if changed.Master != nil && l.Master != 0 {
		v.Master = d.linkName(kernel.LinkRef{NS: l.NS, Index: l.Master}, "")
		v.BridgePort = d.readPort(l, hint.GetBridgePort())
	}
	for _, name := range l.AltNames {
		if _, asked := changed.AltNames[name]; asked {
			v.AlternativeNames = append(v.AlternativeNames, name)
		}
	}
	d.readAdoptedAccepts(l, v, hint, changed.Accepts)
	d.readOffloads(l, v, changed.Features, changed.RX != nil, changed.TX != nil)
	d.hideUnnamed(k, v, hint)
	return v
}

// nameAs is the name of an adopted link: the one that the value uses, if the link has it, or its
// first.
func nameAs(k scheduler.Key, l kernel.Link, hint *models.Interface) string {
	if name := hint.EffectiveHostName(string(k)); slices.Contains(l.AltNames, name) {
		return name
	}
	return l.Name
}
