package address

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// retrieve reads the addresses of our interfaces: all of them, or the keys
// that are asked for.
func (d *address) retrieve(_ context.Context, s scope) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		if !s.ReadOnly {
			d.objects.Read()
		}
		r := &search{
			d: d, scope: s, wanted: map[place]known{}, inScope: map[scheduler.Key]bool{}, claims: map[scheduler.Key]string{},
			named: map[kernel.AddressRef]scheduler.Key{}, readLinks: map[kernel.LinkRef]bool{},
		}
		r.learn()
		reading := d.Owner.Reading()
		links, err := r.links()
		if err != nil {
			yield(found{}, err)
			return
		}
		r.read, r.routes = d.reader(len(links)), d.routeReader(len(links))
		seen := map[scheduler.Key]bool{}
		for _, l := range links {
			for f, err := range r.on(l) {
				if f.Key != "" {
					seen[f.Key] = true
				}
				if !yield(f, err) {
					return
				}
			}
		}
		if !s.ReadOnly {
			d.leave(reading, r, seen)
		}
	}
}

// leave takes leave of recorded addresses that are not there. Of a link that
// was not read nothing is known, unless all were read or the link has gone.
func (d *address) leave(reading kernel.Reading, r *search, seen map[scheduler.Key]bool) {
	var gone []string
	for _, e := range d.Owner.Entries(prefix) {
		k := scheduler.Key(e.ID)
		if !seen[k] && (r.keys == nil || r.keys[k] && (r.readLinks[kernel.LinkRef{NS: e.NS, Index: e.Index}] || d.linkGone(e))) {
			gone = append(gone, e.ID)
		}
	}
	reading.Forget(gone...)
}

// linkGone reports whether the link of a recorded address is surely not there any more.
func (d *address) linkGone(e kernel.Entry) bool {
	ns, err := e.Find(d.Kernel)
	if err == nil {
		_, err = d.Kernel.LinkByIndex(ns, e.Index)
	}
	return kernel.IsGone(err)
}

// search is one reading.
type search struct {
	d       *address
	scope   scope
	wanted  map[place]known        // whose an address is, by its key's value
	names   map[string]bool        // the interfaces in question, nil: all
	keys    map[scheduler.Key]bool // the keys in question, nil: all
	inScope map[scheduler.Key]bool // keys of the scope that do not say which address they are
	claims  map[scheduler.Key]string
	named   map[kernel.AddressRef]scheduler.Key // what the ledger names that is not derived
	read    readLink
	routes  readRoutes

	readLinks map[kernel.LinkRef]bool
	// waitUntil is when the search no longer waits for routes of type local; zero: it has not waited.
	waitUntil time.Time
}

// place is an address of an interface by its logical name.
type place struct {
	iface  string
	prefix netip.Prefix
}

// link is an interface in question.
type link struct {
	name      string // logical
	host      string // in the kernel
	ref       kernel.LinkRef
	ours      bool // addresses that values name are ours, whoever added them
	exclusive bool // other addresses are removed
	up        bool
	// positions are the desired positions of addresses; late are addresses that are not in that order.
	positions map[netip.Prefix]uint32
	late      map[netip.Prefix]bool
}

// learn finds which interfaces the scope is about, and which key an address belongs to.
func (r *search) learn() {
	for _, kn := range r.scope.Known {
		p := kn.Meta.Prefix
		if !kn.InPlace {
			p, _ = r.d.prefixOf(kn.Value)
		}
		at := place{kn.Value.GetInterface(), p}
		if before, twice := r.wanted[at]; !twice || rankOf(kn) < rankOf(before) {
			r.wanted[at] = kn
		}
		r.claims[kn.Key] = kn.Value.GetClaim()
		if named(kn.Key) {
			r.inScope[kn.Key] = true
		}
	}
	for _, e := range r.d.Owner.Entries(prefix) {
		if k := scheduler.Key(e.ID); named(k) {
			r.named[kernel.AddressRef{LinkRef: kernel.LinkRef{NS: e.NS, Index: e.Index}, Prefix: parse(e.Mark)}] = k
			if v, err := models.DecodeValue[*models.Address](e.Value); err == nil && r.claims[k] == "" {
				r.claims[k] = v.GetClaim()
			}
		}
	}
	if r.scope.All {
		return
	}
	r.names, r.keys = map[string]bool{}, map[scheduler.Key]bool{}
	for _, k := range r.scope.Keys {
		r.keys[k] = true
		if name, _, derived := strings.Cut(strings.TrimPrefix(string(k), prefix), "/"); derived {
			r.names[name] = true
		}
	}
	for _, kn := range r.scope.Known {
		r.names[kn.Value.GetInterface()] = true
	}
}

// links finds the interfaces in question in the kernel. For all of them it
// looks for marks and the ledger itself, so that the order in which kinds are
// read does not matter.
func (r *search) links() ([]link, error) {
	var list []link
	if r.names != nil {
		for name := range r.names {
			if l, ok := r.link(name); ok {
				list = append(list, l)
			}
		}
		slices.SortFunc(list, func(a, b link) int { return strings.Compare(a.name, b.name) })
		return list, nil
	}
	entries := r.d.Owner.Entries(models.KindInterface + "/")
	places, failed := r.d.Owner.Places(r.d.Kernel, models.KindInterface+"/")
	for ns, err := range failed {
		return nil, fmt.Errorf("open the namespace net:[%d]: %w", ns, err)
	}
	for _, ns := range places {
		links, err := r.d.Kernel.Links(ns)
		if errors.Is(err, kernel.ErrNoNamespace) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the links: %w", err)
		}
		for _, l := range links {
			if name, ok := r.d.Names.Of(l.Ref()); ok {
				list = append(list, r.linkOf(name, l))
			}
		}
		for _, own := range r.d.Owner.OursAmong(ns, links, entries, nil) {
			list = append(list, r.linkOf(strings.TrimPrefix(own.Key, models.KindInterface+"/"), own.Link))
		}
	}
	slices.SortFunc(list, func(a, b link) int {
		return cmp.Or(cmp.Compare(a.ref.NS, b.ref.NS), cmp.Compare(a.ref.Index, b.ref.Index))
	})
	return slices.CompactFunc(list, func(a, b link) bool { return a.ref == b.ref }), nil
}

func (r *search) linkOf(name string, l kernel.Link) link {
	v := r.d.interfaceOf(name)
	return link{name: name, host: l.Name, ref: l.Ref(), ours: isOurs(v), exclusive: v.RemovesAddresses(), up: l.Up}
}

// link finds one interface where the scheduler or the ledger has it.
func (r *search) link(name string) (link, bool) {
	key := models.InterfaceKey(name)
	_, ref, ok := r.d.Interfaces.Get(scheduler.Key(key))
	if e, recorded := r.d.Owner.Entry(key); !ok && recorded {
		ref = r.recorded(e)
	}
	if ref.Index == 0 {
		return link{}, false
	}
	l, err := r.d.Kernel.LinkByIndex(ref.NS, ref.Index)
	return r.linkOf(name, l), err == nil
}

// recorded is the link of an entry; zero if it is not there. If it cannot be read, the address
// cannot either.
func (r *search) recorded(e kernel.Entry) kernel.LinkRef {
	l, err := r.d.Owner.FindLink(r.d.Kernel, e)
	if err != nil {
		return kernel.LinkRef{}
	}
	return l.Ref()
}

// on yields the addresses of one link.
func (r *search) on(l link) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		list, err := r.read(l.ref)
		if err != nil && !kernel.IsGone(err) {
			for _, k := range r.asked(l) {
				if !yield(found{Key: k}, fmt.Errorf("read the addresses of %s: %w", l.name, err)) {
					return
				}
			}
			return
		}
		r.readLinks[l.ref] = true
		if !r.scope.ReadOnly {
			// What is there of the keys in question, or of all, is read anew.
			r.d.have.ForgetIf(l.ref, func(h held) bool { return r.keys == nil || r.keys[h.key] })
		}
		if slices.ContainsFunc(list, func(a kernel.Address) bool { return a.Protocol != 0 }) {
			r.d.tells.Store(true)
		}
		l.positions = r.positions(l, list)
		l.late = r.late(l, list)
		for _, a := range r.withoutCopied(l, list) {
			f, mine, err := r.found(l, a)
			if err != nil {
				if !yield(found{Key: f.Key}, err) {
					return
				}
				continue
			}
			if !mine || r.keys != nil && !r.keys[f.Key] {
				continue
			}
			if !r.scope.ReadOnly {
				r.d.note(f.Meta, f.Key, f.Value, l.positions[a.Prefix])
			}
			if !yield(f, nil) {
				return
			}
		}
	}
}

// withoutCopied returns the addresses of a link without those that are as desired but were added once
// more with another peer. The kernel keeps both, a key stands for both. So the key is found with the
// other peer, and the repair removes both. On links of others such an address is none of ours.
func (r *search) withoutCopied(l link, list []kernel.Address) []kernel.Address {
	if !l.ours || !slices.ContainsFunc(list, func(a kernel.Address) bool { return a.Peer.IsValid() }) {
		return list
	}
	fits := func(a kernel.Address) bool {
		kn, known := r.wanted[place{l.name, a.Prefix}]
		return known && networkOf(kn.Value).peer == a.Peer
	}
	return slices.DeleteFunc(slices.Clone(list), func(a kernel.Address) bool {
		return fits(a) && slices.ContainsFunc(list, func(b kernel.Address) bool { return b.Prefix == a.Prefix && !fits(b) })
	})
}

// readLink reads the addresses of a link.
type readLink func(kernel.LinkRef) ([]kernel.Address, error)

// few is how many links are read one by one.
const few = 8

// reader reads those of so many links; if they are many, all of a namespace at once.
func (d *address) reader(links int) readLink {
	if links <= few {
		return func(ref kernel.LinkRef) ([]kernel.Address, error) { return d.Kernel.Addresses(ref.NS, ref.Index) }
	}
	dumps := owned.Dumps[byLink]{Read: d.addresses}
	return func(ref kernel.LinkRef) ([]kernel.Address, error) {
		all, err := dumps.Of(ref.NS)
		return all[ref.Index], err
	}
}

// readRoutes reads the routes to the networks of a link.
type readRoutes func(kernel.LinkRef) ([]kernel.Route, error)

// routeReader reads those of so many links, as reader does.
func (d *address) routeReader(links int) readRoutes {
	if links <= few {
		return func(ref kernel.LinkRef) ([]kernel.Route, error) { return d.Kernel.AddressRoutes(ref.NS, ref.Index) }
	}
	dumps := owned.Dumps[map[int][]kernel.Route]{Read: func(ns kernel.NS) (map[int][]kernel.Route, error) {
		all, err := d.Kernel.AddressRoutes(ns, 0)
		of := map[int][]kernel.Route{}
		for _, r := range all {
			of[r.Index] = append(of[r.Index], r)
		}
		return of, err
	}}
	return func(ref kernel.LinkRef) ([]kernel.Route, error) {
		all, err := dumps.Of(ref.NS)
		return all[ref.Index], err
	}
}

// byLink are all addresses of a namespace by the index of their link.
type byLink map[int][]kernel.Address

func (d *address) addresses(ns kernel.NS) (byLink, error) {
	all, err := d.Kernel.Addresses(ns, 0)
	on := byLink{}
	for _, a := range all {
		on[a.Index] = append(on[a.Index], a)
	}
	return on, err
}

// asked are the keys in question on a link that cannot be read.
func (r *search) asked(l link) []scheduler.Key {
	var keys []scheduler.Key
	for at, kn := range r.wanted {
		if at.iface == l.name {
			keys = append(keys, kn.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

// keyOf finds the key that an address belongs to. Two may want it, one by the address
// and one by a claim that holds it: then memory knows who has it, or the ledger. Both also tell that a
// wanted key has taken over what was found under another one.
func (r *search) keyOf(l link, at kernel.AddressRef) (scheduler.Key, bool) {
	named, recorded := r.named[at]
	noted, there := r.d.keyAt(at)
	kn, wanted := r.wanted[place{l.name, at.Prefix}]
	has := kn.InPlace && r.d.isWanted(kn.Key)
	switch {
	case wanted && !has && there && r.d.isWanted(noted):
		return noted, true
	case wanted && !has && recorded && (r.inScope[named] || r.d.isWanted(named)):
		return named, true
	case wanted:
		return kn.Key, true
	case there:
		return noted, true
	}
	return named, recorded
}

// written is what the ledger says of an address.
func (r *search) written(recorded bool, e kernel.Entry) *models.Address {
	if !recorded {
		return nil
	}
	v, _ := models.DecodeValue[*models.Address](e.Value) // else it is measured
	return v
}

// rankOf orders keys that want one address: who has it, who says which it is, and who
// has it by a claim.
func rankOf(kn known) int {
	switch {
	case kn.InPlace:
		return 0
	case !named(kn.Key):
		return 1
	}
	return 2
}

// ownerOf says who put an address on a link of ours, "" if it was us or cannot be told.
func (d *address) ownerOf(a kernel.Address) string {
	switch {
	case a.Protocol == d.Owner.Protocol() || !d.tells.Load():
		return ""
	case a.Protocol == 0:
		return "somebody else"
	case kernel.IsMarked(a.Protocol):
		return fmt.Sprintf("the agent of another label (protocol %d)", a.Protocol)
	}
	return fmt.Sprintf("protocol %d", a.Protocol)
}

// found describes an address; mine is false for what is nobody's business:
// what the kernel made on a link of ours.
func (r *search) found(l link, a kernel.Address) (f found, mine bool, err error) {
	f = found{
		Key:  scheduler.Key(models.AddressKey(l.name, a.Prefix.String())),
		Meta: kernel.AddressRef{LinkRef: l.ref, Prefix: a.Prefix},
	}
	k, wanted := r.keyOf(l, f.Meta)
	if wanted {
		f.Key = k
	}
	if l.ours && a.Kernel && !wanted {
		return f, false, nil
	}
	e, recorded := r.d.Owner.Entry(string(f.Key))
	recorded = recorded && e.NS == l.ref.NS && e.Index == l.ref.Index
	_, shared := r.d.shared.Get(l.ref, a.Prefix)
	if l.exclusive {
		f.Owner = r.d.ownerOf(a)
	}
	f.Value = &models.Address{Interface: l.name, Address: a.Prefix.String()}
	told(f.Value, a, r.wanted[place{l.name, a.Prefix}].Value, r.written(recorded, e))
	if s := scopeName(a.Scope); s != "global" {
		f.Value.Scope = s
	}
	if a.Label != l.host {
		f.Value.Label = a.Label
	}
	kind.SetNetwork(f.Value, a)
	if claim := r.claims[f.Key]; claim != "" {
		f.Value.Claim = claim
		if r.d.holds(claim, a.Prefix) {
			f.Value.Address = ""
		}
	}
	kn, known := r.wanted[place{l.name, a.Prefix}]
	// The protocol tells our addresses of a list that was removed while the agent was stopped.
	own := l.exclusive || l.ours && (known && r.d.isWanted(kn.Key) || a.Protocol == r.d.Owner.Protocol())
	if !own && !recorded && !shared {
		if f.Foreign = kn.Key != f.Key || kn.InPlace || !equal(f.Key, f.Value, withDefaultsOf(kn.Value, a)); !f.Foreign && !r.scope.ReadOnly {
			r.d.shared.Note(l.ref, a.Prefix, struct{}{})
		}
		return f, true, nil
	}
	if a.Duplicate {
		f.Value.DuplicateDetection = duplicate
	}
	if !l.late[a.Prefix] {
		f.Value.Position = l.positions[a.Prefix]
	}
	lacks, err := r.lacking(l, a)
	if err != nil {
		return f, false, fmt.Errorf("read the routes of the addresses of %s: %w", l.name, err)
	}
	if lacks != "" {
		f.Value.PrefixRoute = lacks
	}
	return f, true, nil
}
