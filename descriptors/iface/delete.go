package iface

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
)

// deleteBatch deletes many links. The kernel takes as long for hundreds as for
// one, so all of a namespace go at once, and the two ends of a veth count once,
// in the namespace where more go.
func (d *iface) deleteBatch(ctx context.Context, ops []*op) {
	d.objects.DeleteBatch(ops, func() { d.removeAll(ctx, ops) })
	for _, o := range ops {
		if o.Err == nil {
			d.forgetMAC(o.Key)
		}
	}
}

func (d *iface) removeAll(ctx context.Context, ops []*op) {
	read := d.reader(ops)
	var doomed []death
	for _, o := range ops {
		if o.Err = ctx.Err(); o.Err != nil {
			continue
		}
		l, there, err := d.target(o, read)
		switch {
		case err != nil:
			o.Err = err
		case !there:
			d.release(o.Meta)
		case adopts(o.Value):
			d.busy(o.Meta, o.Key)
			if o.Err = d.abandon(o.Key, l); kernel.IsGone(o.Err) {
				o.Err = nil
			}
			if o.Err == nil {
				d.release(o.Meta)
			} else {
				d.settle(o.Meta, nil)
			}
		case d.isTaken(o.Key, l):
			d.busy(o.Meta, o.Key)
			if o.Err = d.returnTaken(ctx, o.Key, l); o.Err == nil {
				d.release(o.Meta)
			} else {
				d.settle(o.Meta, nil)
			}
		default:
			doomed = append(doomed, death{op: o, link: l})
		}
	}
	d.kill(doomed)
}

// death is one link that must go.
type death struct {
	op   *op
	link kernel.Link
}

// reader reads a link of each of the operations. Where many are in one namespace all of
// that are read at once, before anything is done there.
func (d *iface) reader(ops []*op) func(kernel.LinkRef) (kernel.Link, error) {
	const few = 8
	count := map[kernel.NS]int{}
	for _, o := range ops {
		count[o.Meta.NS]++
	}
	dumps := owned.Dumps[[]kernel.Link]{Read: d.Kernel.Links}
	return func(ref kernel.LinkRef) (kernel.Link, error) {
		if count[ref.NS] <= few {
			return d.Kernel.LinkByIndex(ref.NS, ref.Index)
		}
		all, err := dumps.Of(ref.NS)
		if err != nil {
			return kernel.Link{}, err
		}
		l, there := kernel.FindLink(all, ref.Index)
		if !there {
			return kernel.Link{}, kernel.ErrNotExist
		}
		return l, nil
	}
}

// target finds the link and makes sure that it is ours. What is not there, or
// no longer bears our evidence, needs no deletion.
func (d *iface) target(o *op, read func(kernel.LinkRef) (kernel.Link, error)) (l kernel.Link, there bool, err error) {
	e, recorded := d.Owner.Entry(string(o.Key))
	if recorded && e.NS == o.Meta.NS {
		_, err = e.Find(d.Kernel) // it may be closed
	}
	if errors.Is(err, kernel.ErrNoNamespace) || err == nil && !d.Kernel.Alive(o.Meta.NS) {
		return l, false, nil
	}
	if err != nil {
		return l, false, err
	}
	l, err = read(o.Meta)
	if kernel.IsGone(err) {
		return l, false, nil
	}
	if err != nil {
		return l, false, fmt.Errorf("read the link before its deletion: %w", err)
	}
	if adopts(o.Value) {
		return l, true, nil
	}
	if !recorded {
		return l, d.ours(o.Key, l, nil), nil
	}
	return l, d.ours(o.Key, l, &e), nil
}

// kill deletes the links, grouped by namespace. The watch would take the
// events for news, so the links are forgotten first.
func (d *iface) kill(doomed []death) {
	where := choose(doomed)
	for _, ns := range slices.Sorted(maps.Keys(where)) {
		var links []kernel.Link
		for _, e := range where[ns] {
			links = append(links, e.link)
			d.dying(e.death.link.Ref())
		}
		err := d.deleteIn(ns, links)
		for _, e := range where[ns] {
			if err != nil && !kernel.IsGone(err) {
				e.death.op.Err = fmt.Errorf("delete %s: %w", e.death.link.Name, err)
				d.busy(e.death.link.Ref(), e.death.op.Key)
				d.settle(e.death.link.Ref(), nil)
			}
		}
	}
}

func (d *iface) deleteIn(ns kernel.NS, links []kernel.Link) error {
	if len(links) == 1 {
		return d.remove(links[0].Ref())
	}
	return d.Kernel.DeleteLinks(ns, links)
}

// remove deletes one link; a missing one is no error.
func (d *iface) remove(ref kernel.LinkRef) error {
	if err := d.Kernel.DeleteLink(ref.NS, ref.Index); !kernel.IsGone(err) {
		return err
	}
	return nil
}

// end is the link by whose deletion one goes: itself, or the other end of its cable.
type end struct {
	death death
	link  kernel.Link
}

// choose decides for every link in which namespace it is deleted: a veth can
// go by either of its ends.
func choose(doomed []death) map[kernel.NS][]end {
	count, known := map[kernel.NS]int{}, map[kernel.LinkRef]kernel.Link{}
	for _, x := range doomed {
		known[x.link.Ref()] = x.link
		count[x.link.NS]++
		if x.link.Type == "veth" && x.link.ParentNS != 0 && x.link.ParentNS != x.link.NS {
			count[x.link.ParentNS]++
		}
	}
	where := map[kernel.NS][]end{}
	done := map[kernel.LinkRef]bool{}
	for _, x := range doomed {
		at, other := x.link.Ref(), kernel.LinkRef{NS: x.link.ParentNS, Index: x.link.Parent}
		if x.link.Type == "veth" && other.NS != 0 {
			if done[other] {
				at = other // its other end has been chosen; go with it
			} else if count[other.NS] > count[at.NS] || count[other.NS] == count[at.NS] && other.NS < at.NS {
				at = other
			}
		}
		done[at] = true
		l, read := known[at]
		if !read {
			l = kernel.Link{NS: at.NS, Index: at.Index}
		}
		where[at.NS] = append(where[at.NS], end{death: x, link: l})
	}
	return where
}
