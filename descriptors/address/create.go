package address

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// createBatch makes many addresses with one write to the ledger, or none, and with few calls
// of the kernel.
func (d *address) createBatch(ctx context.Context, ops []*op) {
	slices.SortFunc(ops, func(a, b *op) int {
		return cmp.Or(strings.Compare(a.Value.GetInterface(), b.Value.GetInterface()), comparePositions(a.Value.GetPosition(), b.Value.GetPosition()), strings.Compare(string(a.Key), string(b.Key)))
	})
	d.objects.CreateBatch(owned.WithBatch(ctx, newBatch()), ops)
}

// batch are creations that are prepared, and for which the kernel is still to be asked.
type batch struct{ jobs []*job }

func newBatch() *batch { return &batch{} }

// job is one creation.
type job struct {
	op       *op
	addr     kernel.Address
	ours     bool
	recorded bool // the ledger named it before, for this key or the one that it is taken over from
	foreign  bool // it is there, and was before us
	// before is what was believed of the address until now; without a key, nothing.
	before held
	err    error // what the kernel said
	// unusable is the error of an address that exists and does not work: there is no route to its
	// network, or another host has it.
	unusable error
	late     bool // it was not asked any more
}

// prepare: of an address on a link of ours the mark of the link is proof, if its key
// says which it is.
func (d *address) prepare(ctx context.Context, o *op) (owned.Job[kernel.AddressRef], error) {
	j, err := d.jobOf(o)
	if err != nil {
		return owned.Job[kernel.AddressRef]{}, err
	}
	b := owned.BatchOf(ctx, newBatch)
	b.jobs = append(b.jobs, &j)
	made := owned.Job[kernel.AddressRef]{
		Make: func() (kernel.AddressRef, error) {
			d.addAll(ctx, b)
			return o.Meta, d.made(ctx, j)
		},
		Cancel: func() { d.restore(j) },
	}
	if !j.foreign && (!j.ours || named(o.Key)) {
		made.Entries = []kernel.Entry{d.entry(j)}
	}
	return made, nil
}

// named reports whether the key does not say which address it is: an operator wrote
// it by itself, or a claim holds it. On a link of ours nothing but the ledger can
// say after a restart whose the address is.
func named(k scheduler.Key) bool {
	_, addr, derived := strings.Cut(strings.TrimPrefix(string(k), prefix), "/")
	return !derived || strings.HasPrefix(addr, models.ClaimPrefix)
}

func (d *address) jobOf(o *op) (job, error) {
	v := o.Value
	link, err := kind.LinkOf(d.Interfaces, v.GetInterface())
	if err != nil {
		return job{}, err
	}
	p, err := d.prefixOf(v)
	if err != nil {
		return job{}, err
	}
	o.Meta = kernel.AddressRef{LinkRef: link, Prefix: p}
	j := job{op: o, ours: isOurs(d.interfaceOf(v.GetInterface())), addr: d.addressOf(link, p, v)}
	if err := d.take(&j); err != nil {
		return job{}, err
	}
	if !j.ours && !j.recorded {
		if j.foreign, err = d.stands(link, j.addr); err != nil {
			d.restore(j)
		}
	}
	return j, err
}

// addressOf is the address that the kernel is asked for.
func (d *address) addressOf(link kernel.LinkRef, p netip.Prefix, v *models.Address) kernel.Address {
	n := networkOf(v)
	return kernel.Address{
		Index: link.Index, Prefix: p, Label: v.GetLabel(), Scope: scopeNumber(scopeOf(v, p)),
		Valid: v.GetValidLifetime(), Preferred: v.EffectivePreferredLifetime(), Protocol: d.Owner.Protocol(),
		Peer: n.peer, Metric: n.metric, NoPrefixRoute: n.noRoute, Broadcast: broadcastOf(p, v),
		NoDetection: p.Addr().Is6() && v.GetDuplicateDetection() == noDetection,
	}
}

// take notes that the address is of the key now, or says whose it is. A claim may hold
// the very address that another key names, which no comparison of values shows. Who
// has it keeps it; from a key that is not wanted any more it is taken over as it stands,
// and the deletion of that one leaves it alone.
func (d *address) take(j *job) error {
	at, k := j.op.Meta, j.op.Key
	_, j.recorded = d.Owner.Entry(string(k))
	if other, ok := d.keyAt(at); ok && other != k {
		if d.isWanted(other) {
			return scheduler.Blocked(other, fmt.Errorf("%s is in use by %s", at.Prefix, other))
		}
		e, recorded := d.Owner.Entry(string(other))
		j.recorded = j.recorded || recorded && e.NS == at.NS && e.Index == at.Index
	}
	j.before = d.note(at, k, j.op.Value, j.op.Value.GetPosition()) // before it is made, or we take the event for news
	return nil
}

// restore takes back what take has noted.
func (d *address) restore(j job) {
	if at := j.op.Meta; j.before.key == "" {
		d.forget(at)
	} else {
		d.have.Note(at.LinkRef, at.Prefix, j.before)
	}
}

// stands reports whether an address is on a link. One on the link of others need not be tried then, and
// never becomes ours.
func (d *address) stands(link kernel.LinkRef, want kernel.Address) (bool, error) {
	there, err := d.Kernel.Addresses(link.NS, link.Index)
	if err != nil {
		return false, fmt.Errorf("read the addresses of the link: %w", err)
	}
	return slices.ContainsFunc(there, func(a kernel.Address) bool { return sameAddress(a, want) }), nil
}

// entry finds the address again after a restart, by way of its interface.
func (d *address) entry(j job) kernel.Entry {
	e := kernel.Entry{
		ID: string(j.op.Key), NS: j.op.Meta.NS, Index: j.op.Meta.Index,
		Value: models.Encode(j.op.Value), Mark: j.op.Meta.Prefix.String(),
	}
	if link, ok := d.Owner.Entry(models.InterfaceKey(j.op.Value.GetInterface())); ok {
		e.NSPath = link.NSPath
	}
	return e
}

// addAll asks the kernel for what the batch still has to ask for, all of a namespace together.
func (d *address) addAll(ctx context.Context, b *batch) {
	asked, places := map[kernel.NS][]*job{}, []kernel.NS{}
	for _, j := range b.jobs {
		if j.err = ctx.Err(); j.err != nil {
			j.late = true
			continue
		}
		if j.foreign {
			j.err = kernel.ErrExist // and need not be tried
			continue
		}
		ns := j.op.Meta.NS
		if asked[ns] == nil {
			places = append(places, ns)
		}
		asked[ns] = append(asked[ns], j)
	}
	b.jobs = nil
	for _, ns := range places {
		as := make([]kernel.Address, len(asked[ns]))
		for i, j := range asked[ns] {
			as[i] = j.addr
		}
		for i, err := range d.Kernel.AddAddresses(ns, as) {
			asked[ns][i].err = err
		}
		d.added(ctx, ns, asked[ns])
	}
}

// added completes the creation of addresses after the kernel has added them.
func (d *address) added(ctx context.Context, ns kernel.NS, jobs []*job) {
	d.addMissingRoutes(ns, jobs)
	d.orderNew(jobs)
	detected := slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool { return !j.isDetected() })
	d.announce(slices.DeleteFunc(slices.Clone(jobs), (*job).isDetected)) // without waiting for the others
	d.awaitDetection(ctx, detected)
	d.announce(detected)
}

// announce tells neighbours of the addresses that have been created: they may know another MAC,
// of an address that was elsewhere before.
func (d *address) announce(jobs []*job) {
	var added []kernel.AddressRef
	for _, j := range jobs {
		if j.err == nil && j.unusable == nil && j.addr.Scope != scopeNumber("host") {
			added = append(added, j.op.Meta)
		}
	}
	if len(added) > 0 {
		d.Announcer.Added(added...)
	}
}

// made ends the making of an address for which the kernel was asked.
func (d *address) made(ctx context.Context, j job) error {
	switch {
	case j.late:
		d.restore(j)
		return j.err
	case errors.Is(j.err, kernel.ErrExist):
		err := d.clash(ctx, &j)
		if !errors.Is(err, errRemoved) {
			return err
		}
		if j.err = d.Kernel.AddAddress(j.op.Meta.NS, j.addr); j.err != nil {
			d.undo(j)
			return explain(j.op.Value, j.op.Meta, j.err)
		}
		d.added(ctx, j.op.Meta.NS, []*job{&j})
	case j.err != nil:
		d.undo(j)
		return explain(j.op.Value, j.op.Meta, j.err)
	case j.ours && j.addr.Peer.IsValid():
		if err := d.removeCopies(j); err != nil {
			return explain(j.op.Value, j.op.Meta, err)
		}
	}
	if err := d.Owner.Hit("address/made"); err != nil {
		return err
	}
	return j.unusable
}

// removeCopies removes the same address with other peers from a link of ours. The kernel, for which
// these are other addresses, has not refused the new one.
func (d *address) removeCopies(j job) error {
	at := j.op.Meta
	there, err := d.Kernel.Addresses(at.NS, at.Index)
	if err != nil {
		return err
	}
	r := &removal{link: at.LinkRef, there: there}
	for _, a := range there {
		if a.Prefix == at.Prefix && a.Peer != j.addr.Peer {
			r.doomed = append(r.doomed, a)
		}
	}
	d.remove([]*removal{r})
	return r.err
}

// undo takes back what was said of an address that is not to be made.
func (d *address) undo(j job) {
	d.forget(j.op.Meta)
	if !j.recorded {
		d.Owner.Remove(string(j.op.Key))
	}
}

// clash looks at what is there. Equal is success: on a link of ours because
// all of it is ours, elsewhere without calling it ours. What differs is
// changed or replaced if it is ours, and a conflict elsewhere.
func (d *address) clash(ctx context.Context, j *job) error {
	at := j.op.Meta
	there, err := d.Kernel.Addresses(at.NS, at.Index)
	if err != nil {
		return explain(j.op.Value, at, err)
	}
	for _, a := range there {
		if !sameAddress(a, j.addr) {
			continue
		}
		ours, want := j.ours || j.recorded, j.addr
		if !ours {
			want = d.addressOf(at.LinkRef, at.Prefix, withDefaultsOf(j.op.Value, a))
		}
		shape := alike(a, want) && !(ours && d.lacksLocalRoute(at.NS, a))
		fits := !a.Duplicate && lifetimesOf(j.op.Value).fit(a) && a.Metric == want.Metric && a.NoPrefixRoute == want.NoPrefixRoute
		switch {
		case shape && fits && !ours:
			d.Owner.Remove(string(j.op.Key))
			d.shared.Note(at.LinkRef, at.Prefix, struct{}{})
			return nil
		case shape && ours && !a.Duplicate:
			err := d.change(*j, a, fits)
			if stands, readErr := d.stands(at.LinkRef, j.addr); err != nil && readErr == nil && !stands {
				return errRemoved
			}
			return err
		case ours:
			r := &removal{link: at.LinkRef, there: there, doomed: []kernel.Address{a}}
			if d.remove([]*removal{r}); r.err != nil {
				return explain(j.op.Value, at, r.err)
			}
			if err := d.Kernel.AddAddress(at.NS, j.addr); err != nil {
				return explain(j.op.Value, at, err)
			}
			j.err = nil
			d.added(ctx, at.NS, []*job{j})
			return j.unusable
		case shape && a.Duplicate:
			d.undo(*j)
			return scheduler.Conflict("somebody else", duplicated(a))
		default:
			d.undo(*j)
			return scheduler.Conflict("somebody else", fmt.Errorf(
				"%s is on the link already with other settings (%s, label %q, %s), and was not put there by Plumb", a.Prefix, scopeName(a.Scope), a.Label, span(a)))
		}
	}
	return errRemoved
}

// errRemoved: others removed the address after the kernel had refused to add it.
var errRemoved = errors.New("the address was removed meanwhile")

// change updates an owned address in place. If the settings match, it only adds missing routes.
func (d *address) change(j job, is kernel.Address, fits bool) error {
	at := j.op.Meta
	if !fits {
		if err := d.Kernel.ChangeAddress(at.NS, j.addr); err != nil {
			return explain(j.op.Value, at, err)
		}
	}
	if j.op.Value.GetPosition() != 0 {
		if err := d.order(at.LinkRef); err != nil {
			return err
		}
	}
	is.Metric, is.NoPrefixRoute = j.addr.Metric, j.addr.NoPrefixRoute
	l, lacks, err := d.lacking(at.NS, is)
	switch {
	case err != nil || lacks == "":
	case is.Prefix.Addr().Is4():
		err = d.addRoutes(l, is, lacks)
	case fits:
		err = d.Kernel.ChangeAddress(at.NS, j.addr) // the kernel adds the route
	}
	return err
}

// lacksLocalRoute reports whether the local route of an IPv6 address was removed, so that the host does not
// receive packets to it. The kernel adds that route again only with the address.
func (d *address) lacksLocalRoute(ns kernel.NS, a kernel.Address) bool {
	if a.Prefix.Addr().Is4() {
		return false
	}
	_, lacks, err := d.lacking(ns, a)
	return err == nil && lacks == missingLocal
}

// sameAddress reports whether the kernel has room for only one of the two.
func sameAddress(a, b kernel.Address) bool {
	return a.Prefix == b.Prefix || a.Prefix.Addr().Is6() && a.Prefix.Addr() == b.Prefix.Addr()
}

// alike: what was asked of the address and cannot be changed is so.
func alike(is, want kernel.Address) bool {
	return is.Prefix == want.Prefix && (want.Label == "" || is.Label == want.Label) &&
		is.Peer == want.Peer && (want.Prefix.Addr().Is6() || is.Scope == want.Scope && is.NoPrefixRoute == want.NoPrefixRoute)
}

func explain(v *models.Address, at kernel.AddressRef, err error) error {
	hint := ""
	if at.Prefix.Addr().Is6() {
		hint = "; if IPv6 is switched off there, set the sysctl net.ipv6.conf.<link>.disable_ipv6 to 0"
	}
	return fmt.Errorf("add %s to interface %s: %w%s", at.Prefix, v.GetInterface(), err, hint)
}
