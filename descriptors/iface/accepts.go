package iface

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Any neighbor on a link can send router advertisements and redirects, and with the kernel's
// defaults these change routes and addresses of the namespace. Links that Plumb creates therefore
// accept none, from before they are up, unless the value allows them. Foreign links keep their
// settings unless the value names one.
//
// A value of the kind sysctl takes precedence over these settings: this kind does not change a
// setting that the ledger holds for such a value.

// acceptFields are the settings with their names in the ledger, their sysctl paths, and the field
// of the model that each belongs to.
var acceptFields = []struct {
	name, place string
	on          int // value if the field is true; 0 if it is false
	field       func(*models.Interface) *bool
	of          func(*kernel.AcceptSpec) **int
}{
	{"accept_ra", "net/ipv6/conf/%s/accept_ra", 2, raOf, func(s *kernel.AcceptSpec) **int { return &s.RA }},
	{"autoconf", "net/ipv6/conf/%s/autoconf", 1, raOf, func(s *kernel.AcceptSpec) **int { return &s.Autoconf }},
	{"accept_redirects6", "net/ipv6/conf/%s/accept_redirects", 1, redirectsOf, func(s *kernel.AcceptSpec) **int { return &s.Redirects6 }},
	{"accept_redirects4", "net/ipv4/conf/%s/accept_redirects", 1, redirectsOf, func(s *kernel.AcceptSpec) **int { return &s.Redirects4 }},
}

func raOf(v *models.Interface) *bool        { return v.AcceptRa }
func redirectsOf(v *models.Interface) *bool { return v.AcceptRedirects }

// numbers maps the names of settings to their values.
type numbers map[string]int

// remember returns n with the current values of the settings that are about to be changed for the
// first time.
func (n numbers) remember(want, current numbers) numbers {
	all := numbers{}
	for name := range want {
		if now, there := current[name]; there {
			all[name] = now
		}
	}
	maps.Copy(all, n)
	return all
}

func (n numbers) split(want numbers) (back, kept numbers) {
	back, kept = numbers{}, numbers{}
	for name, is := range n {
		if _, asked := want[name]; asked {
			kept[name] = is
		} else {
			back[name] = is
		}
	}
	return back, kept
}

// spec returns the settings in the form of the kernel port.
func (n numbers) spec() (s kernel.AcceptSpec) {
	for _, f := range acceptFields {
		if is, there := n[f.name]; there {
			*f.of(&s) = &is
		}
	}
	return s
}

// lackingNumbers returns the desired settings that exist on a link and have another value.
func lackingNumbers(want, now numbers) numbers {
	lacking := numbers{}
	for name, is := range want {
		if was, there := now[name]; there && was != is {
			lacking[name] = is
		}
	}
	return lacking
}

// currentAccepts returns the settings of a link.
func currentAccepts(l kernel.Link) numbers {
	now := numbers{}
	for _, f := range acceptFields {
		if is := *f.of(&l.Accepts); is != nil {
			now[f.name] = *is
		}
	}
	return now
}

// askedAccepts returns the settings that a value names.
func askedAccepts(v *models.Interface) numbers {
	want := numbers{}
	for _, f := range acceptFields {
		switch on := f.field(v); {
		case on == nil:
		case *on:
			want[f.name] = f.on
		default:
			want[f.name] = 0
		}
	}
	return want
}

// acceptsOf returns the settings of a link that is created for a value.
func acceptsOf(v *models.Interface) kernel.AcceptSpec { return madeAccepts(v).spec() }

func madeAccepts(v *models.Interface) numbers {
	want := askedAccepts(v)
	for _, f := range acceptFields {
		if f.field(v) == nil {
			want[f.name] = 0
		}
	}
	return want
}

// lackingAccepts returns the settings of a managed link that differ from the desired ones.
func (d *iface) lackingAccepts(w *wish, l kernel.Link) (s kernel.AcceptSpec) {
	want := madeAccepts(w.value)
	if w.taken != nil {
		want = askedAccepts(w.value)
	}
	s = d.lacking(l, want).spec()
	open := d.takeOpen(l.NS, w.key)
	if s.Redirects4 != nil || open && want["accept_redirects4"] == 0 {
		d.allRedirects().forbid(l.NS, &s, want["accept_redirects4"])
	}
	return s
}

// lacking returns the desired settings that a link does not have and that no managed sysctl sets.
func (d *iface) lacking(l kernel.Link, want numbers) numbers {
	lacking := lackingNumbers(want, currentAccepts(l))
	for _, f := range acceptFields {
		if _, differs := lacking[f.name]; differs && d.bySysctl(l, f.place) {
			delete(lacking, f.name)
		}
	}
	return lacking
}

// bySysctl reports whether a managed sysctl sets a setting of a link. It reads the ledger, so it is
// called only for settings that differ from the desired ones.
func (d *iface) bySysctl(l kernel.Link, place string) bool {
	return slices.ContainsFunc(d.Owner.Entries(models.KindSysctl+"/"), func(e kernel.Entry) bool {
		if e.NS != l.NS {
			return false
		}
		_, theirs, _ := strings.Cut(e.Mark, " ")
		if e.Index != 0 {
			return e.Index == l.Index && theirs == fmt.Sprintf(place, models.IfName)
		}
		return theirs == fmt.Sprintf(place, l.Name)
	})
}

// allRedirects returns the namespaces in which a managed sysctl sets [kernel.AllRedirects].
func (d *iface) allRedirects() saidBySysctl {
	said := saidBySysctl{}
	for _, e := range d.Owner.Entries(models.KindSysctl + "/") {
		if strings.HasSuffix(e.Mark, " "+kernel.AllRedirects) {
			said[e.NS] = true
		}
	}
	return said
}

type saidBySysctl map[kernel.NS]bool

// forbid clears [kernel.AllRedirects] together with the setting of a link that must not accept
// redirects.
func (said saidBySysctl) forbid(ns kernel.NS, s *kernel.AcceptSpec, want int) {
	if want == 0 && !said[ns] {
		s.AllRedirects4 = new(int)
	}
}

// differAccepts compares the settings of a managed link. Of an adopted link it compares only the
// settings that the value names.
func differAccepts(d *kind.Differences, actual, desired *models.Interface) {
	for _, f := range []struct {
		name    string
		was, is *bool
	}{{"accept_ra", actual.AcceptRa, desired.AcceptRa}, {"accept_redirects", actual.AcceptRedirects, desired.AcceptRedirects}} {
		left := actual.GetAdopt() && f.is == nil
		d.May(orZero(f.was) != orZero(f.is) && !left, f.name, orZero(f.was), orZero(f.is))
	}
}

// differAdoptedAccepts compares strictly, as [differAdopted] does.
func differAdoptedAccepts(d *kind.Differences, actual, desired *models.Interface) {
	for _, f := range []struct {
		name    string
		was, is *bool
	}{{"accept_ra", actual.AcceptRa, desired.AcceptRa}, {"accept_redirects", actual.AcceptRedirects, desired.AcceptRedirects}} {
		differs := (f.was == nil) != (f.is == nil) || orZero(f.was) != orZero(f.is)
		was := "unset"
		if f.was != nil {
			was = strconv.FormatBool(*f.was)
		}
		d.May(differs, f.name, was, orBack(strconv.FormatBool(orZero(f.is)), f.is == nil))
	}
}

// readAccepts sets the fields of a value from the settings of a managed link: to the desired value
// if all settings of the field agree with it, and otherwise to the opposite. It prefers the desired
// value to the hint, which may be an earlier reading of a foreign change.
func (d *iface) readAccepts(k scheduler.Key, l kernel.Link, v, hint *models.Interface) {
	if hint == nil {
		hint = &models.Interface{}
	}
	desired := hint
	if k != "" {
		if wanted, ok := d.Interfaces.Wanted(k); ok {
			desired = wanted
		}
	}
	ra, redirects := orZero(desired.AcceptRa), orZero(desired.AcceptRedirects)
	for _, f := range acceptFields {
		want, shown := 0, &ra
		if orZero(f.field(desired)) {
			want = f.on
		}
		if strings.HasPrefix(f.name, "accept_redirects") {
			shown = &redirects
		}
		if is := *f.of(&l.Accepts); is != nil && *is != want && !d.bySysctl(l, f.place) {
			*shown = !orZero(f.field(desired))
		}
	}
	redirects = redirects || d.isOpen(l.NS, k)
	v.AcceptRa, v.AcceptRedirects = shownAccept(hint.AcceptRa, ra), shownAccept(hint.AcceptRedirects, redirects)
}

// readAdoptedAccepts sets the fields for the settings of an adopted link that Plumb has changed.
func (d *iface) readAdoptedAccepts(l kernel.Link, v, hint *models.Interface, changed numbers) {
	shown := &models.Interface{}
	d.readAccepts("", l, shown, hint)
	of := func(was *bool, names ...string) *bool {
		for _, name := range names {
			if _, ours := changed[name]; ours {
				return new(orZero(was))
			}
		}
		return nil
	}
	v.AcceptRa = of(shown.AcceptRa, "accept_ra", "autoconf")
	v.AcceptRedirects = of(shown.AcceptRedirects, "accept_redirects6", "accept_redirects4")
}

func shownAccept(hint *bool, is bool) *bool {
	if is == orZero(hint) {
		return hint
	}
	return &is
}

// setAccepts changes the settings of an adopted link that differ from the named ones.
func (d *iface) setAccepts(l kernel.Link, want numbers) error {
	if len(want) == 0 {
		return nil
	}
	if err := d.reread(&l); err != nil {
		return err
	}
	s := d.lacking(l, want).spec()
	if s == (kernel.AcceptSpec{}) {
		return nil
	}
	return d.Kernel.SetLink(l.NS, l.Index, kernel.LinkPatch{Accepts: s})
}

// giveBackAccepts restores the prior settings of an adopted link that still have the value that
// Plumb set.
func (d *iface) giveBackAccepts(l kernel.Link, set, back numbers) error {
	now, change := currentAccepts(l), numbers{}
	for name, was := range back {
		if is, there := now[name]; there && is != was && (set[name] == is) {
			change[name] = was
		}
	}
	if len(change) == 0 {
		return nil
	}
	return d.Kernel.SetLink(l.NS, l.Index, kernel.LinkPatch{Accepts: change.spec()})
}

// accepting returns the keys of links in the agent's own namespace whose settings have drifted.
// The kernel sends no event for such a change. In other namespaces a change is found when links
// are read.
func (d *iface) accepting(context.Context) (keys []scheduler.Key) {
	own := d.Kernel.Own()
	values := d.valuesIn(own)
	if len(values) == 0 {
		return nil
	}
	links, err := d.Kernel.Links(own)
	if err != nil {
		return nil // the next poll reads them again
	}
	now := d.valuesIn(own) // an operation since then may have changed what was just read
	for _, l := range links {
		h, ours := values[l.Index]
		if ours && now[l.Index].value == h.value && d.acceptsOthers(h, l) {
			keys = append(keys, h.key)
		}
	}
	if k := d.findOpen(own, values); k != "" {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// findOpen looks for a namespace in which [kernel.AllRedirects] is set, as the kernel does when
// forwarding ends, and assigns the repair to one managed link there.
func (d *iface) findOpen(ns kernel.NS, values map[int]held) (k scheduler.Key) {
	forwards, err := d.Kernel.Sysctl(ns, "net/ipv4/conf/all/forwarding")
	all, wrong := d.Kernel.Sysctl(ns, kernel.AllRedirects)
	if err == nil && wrong == nil && forwards == "0" && all != "0" && !d.allRedirects()[ns] {
		for _, h := range values {
			made := !adopts(h.value) && !h.value.GetAdopt()
			if made && !orZero(h.value.AcceptRedirects) && (k == "" || h.key < k) {
				k = h.key
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isBusy(d.open[ns]) {
		return "" // an operation on that link may be about to write the setting
	}
	d.open[ns] = k
	if k == "" {
		delete(d.open, ns)
	}
	return k
}

// isBusy reports whether an operation on a link of the key is in progress. The caller holds d.mu.
func (d *iface) isBusy(k scheduler.Key) bool {
	for _, h := range d.links {
		if h.key == k && h.busy {
			return true
		}
	}
	return false
}

// isOpen reports whether the repair of [kernel.AllRedirects] is assigned to a key. takeOpen ends the
// assignment, since the setting is about to be written.
func (d *iface) isOpen(ns kernel.NS, k scheduler.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return k != "" && d.open[ns] == k
}

func (d *iface) takeOpen(ns kernel.NS, k scheduler.Key) bool {
	open := d.isOpen(ns, k)
	if open {
		d.mu.Lock()
		delete(d.open, ns)
		d.mu.Unlock()
	}
	return open
}

// acceptsOthers reports whether the settings of a link differ from its desired value.
func (d *iface) acceptsOthers(h held, l kernel.Link) bool {
	want := madeAccepts(h.value)
	if adopts(h.value) || h.value.GetAdopt() {
		want = askedAccepts(h.value)
	}
	return len(d.lacking(l, want)) > 0
}

// valuesIn returns the managed links in a namespace on which no operation is running.
func (d *iface) valuesIn(ns kernel.NS) map[int]held {
	d.mu.Lock()
	defer d.mu.Unlock()
	values := map[int]held{}
	for ref, h := range d.links {
		if ref.NS == ns && !h.busy && !h.dead && h.value != nil {
			values[ref.Index] = held{key: h.key, value: h.value}
		}
	}
	return values
}
