package main

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/examples/dataplane/switchd"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Port is a port of the dataplane on a tap, which is an interface of Plumb's
// under the same name in the kernel.
type Port struct{ Tap string }

const portPrefix = "dp/port/"

func portKey(name string) scheduler.Key { return scheduler.Key(portPrefix + name) }

// nameOf is the last part of a key.
func nameOf[K ~string](k K, prefix string) string { return strings.TrimPrefix(string(k), prefix) }

// portKind makes ports. What is remembered of one is its index. The tag of a port
// is its key: by that it is known for ours, also by an agent that was restarted.
type portKind struct{ client *switchd.Client }

type portOp = scheduler.Op[Port, uint32]

func ports(c *switchd.Client) scheduler.Descriptor[Port, uint32] {
	d := portKind{c}
	return scheduler.Descriptor[Port, uint32]{
		Name: "dp/port", Prefix: portPrefix,
		Create: d.create, CreateBatch: d.createBatch, Delete: d.delete, DeleteBatch: d.deleteBatch,
		Retrieve: d.retrieve, Watch: d.watch,
		Needs: func(_ scheduler.Key, v Port) []scheduler.Need {
			tap := scheduler.On(scheduler.Key(models.InterfaceKey(v.Tap)), "the tap that it is on")
			return []scheduler.Need{onProcess(), scheduler.Project(tap, func(_ *models.Interface, at kernel.LinkRef) string { return at.String() })}
		},
		Validate: func(_ scheduler.Key, v Port) error {
			if v.Tap == "" {
				return scheduler.Invalid("tap", "must name the tap that the port is on")
			}
			return nil
		},
		Claims: func(_ scheduler.Key, v Port) []scheduler.Claim {
			return []scheduler.Claim{{ID: v.Tap, What: "the tap " + v.Tap}}
		},
	}
}

func (d portKind) create(ctx context.Context, k scheduler.Key, v Port) (uint32, error) {
	o := &portOp{Key: k, Value: v}
	d.createBatch(ctx, []*portOp{o})
	return o.Meta, o.Err
}

// createBatch makes ports with one request.
func (d portKind) createBatch(ctx context.Context, ops []*portOp) {
	wanted := make([]switchd.Port, len(ops))
	for i, o := range ops {
		wanted[i] = switchd.Port{Tap: o.Value.Tap, Tag: string(o.Key)}
	}
	made, errs := d.client.AddPorts(ctx, wanted)
	for i, o := range ops {
		o.Meta, o.Err = made[i].Index, errs[i]
		switch {
		case !errors.Is(o.Err, switchd.ErrExist):
		case made[i].Tag == string(o.Key):
			o.Err = nil // an earlier attempt got that far
		default:
			o.Err = scheduler.Conflict(made[i].Tag, errors.New("the tap has a port already; choose another tap"))
		}
	}
}

func (d portKind) delete(ctx context.Context, k scheduler.Key, v Port, index uint32) error {
	o := &portOp{Key: k, Value: v, Meta: index}
	d.deleteBatch(ctx, []*portOp{o})
	return o.Err
}

// deleteBatch removes the ports that bear the tags, whatever their indexes are
// by now: the number of another life may be somebody else's port.
func (d portKind) deleteBatch(ctx context.Context, ops []*portOp) {
	all, err := ourPorts(ctx, d.client)
	var there []*portOp
	var indexes []uint32
	for _, o := range ops {
		o.Err = err
		for _, p := range all {
			if p.Tag == string(o.Key) {
				there, indexes = append(there, o), append(indexes, p.Index)
			}
		}
	}
	for i, err := range d.client.DeletePorts(ctx, indexes...) {
		if !errors.Is(err, switchd.ErrNotExist) {
			there[i].Err = err
		}
	}
}

func (d portKind) retrieve(ctx context.Context, s scheduler.Scope[Port, uint32]) iter.Seq2[scheduler.Found[Port, uint32], error] {
	return func(yield func(scheduler.Found[Port, uint32], error) bool) {
		all, err := ourPorts(ctx, d.client)
		if err != nil {
			yield(scheduler.Found[Port, uint32]{}, err)
			return
		}
		for _, p := range all {
			k := scheduler.Key(p.Tag)
			if s.Has(k) && !yield(scheduler.Found[Port, uint32]{Key: k, Value: Port{Tap: p.Tap}, Meta: p.Index}, nil) {
				return
			}
		}
	}
}

// watch: ports do not go by themselves, but with the dataplane.
func (d portKind) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return d.client.Watch(ctx, func(e switchd.Event) {
		if e.All {
			notify()
		}
	})
}

// ourPorts are the ports that bear a key of ours.
func ourPorts(ctx context.Context, c *switchd.Client) ([]switchd.Port, error) {
	state, err := c.State(ctx)
	return slices.DeleteFunc(state.Ports, func(p switchd.Port) bool { return !strings.HasPrefix(p.Tag, portPrefix) }), err
}

// portView is what the scheduler knows of the ports; the kind that Register
// returns is one.
type portView interface {
	Get(k scheduler.Key) (Port, uint32, bool)
}

// onPort needs a port. The value is built with its index.
func onPort(name, why string) scheduler.Need {
	return scheduler.Project(scheduler.On(portKey(name), why),
		func(_ Port, index uint32) string { return "port " + indexText(index) })
}
