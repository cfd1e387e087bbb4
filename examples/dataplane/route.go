package main

import (
	"context"
	"errors"
	"iter"

	"github.com/plumb-net/plumb/examples/dataplane/switchd"
	"github.com/plumb-net/plumb/scheduler"
)

// Route leads the network in its key to what is behind a port of a bridge. A
// route without link would lose packets, so it needs that as well.
type Route struct{ Bridge, Port string }

const routePrefix = "dp/route/"

type routeOp = scheduler.Op[Route, none]

// routeKind makes routes, many with one request.
type routeKind struct {
	client *switchd.Client
	ports  portView
}

func routes(c *switchd.Client, view portView) scheduler.Descriptor[Route, none] {
	d := routeKind{client: c, ports: view}
	return scheduler.Descriptor[Route, none]{
		Name: "dp/route", Prefix: routePrefix,
		Create: d.create, CreateBatch: d.createBatch, Delete: d.delete, DeleteBatch: d.deleteBatch,
		Needs: func(_ scheduler.Key, v Route) []scheduler.Need {
			return []scheduler.Need{
				onProcess(), onPort(v.Port, "the port that it leads to"),
				scheduler.On(scheduler.Key(bridgePrefix+v.Bridge), "the bridge of the port"),
				scheduler.On(carrierKey(v.Port), "the link of the port"),
			}
		},
		Retrieve: d.retrieve,
		Watch:    portKind{c}.watch,
	}
}

func (d routeKind) create(ctx context.Context, k scheduler.Key, v Route) (none, error) {
	o := &routeOp{Key: k, Value: v}
	d.createBatch(ctx, []*routeOp{o})
	return none{}, o.Err
}

func (d routeKind) createBatch(ctx context.Context, ops []*routeOp) {
	var able []*routeOp
	var wanted []switchd.Route
	for _, o := range ops {
		index, err := indexesOf(d.ports, o.Value.Port)
		if o.Err = err; err == nil {
			able, wanted = append(able, o), append(wanted, switchd.Route{Network: nameOf(o.Key, routePrefix), Bridge: o.Value.Bridge, Port: index[0]})
		}
	}
	for i, err := range d.client.AddRoutes(ctx, wanted) {
		able[i].Err = err
	}
}

func (d routeKind) delete(ctx context.Context, k scheduler.Key, v Route, _ none) error {
	o := &routeOp{Key: k, Value: v}
	d.deleteBatch(ctx, []*routeOp{o})
	return o.Err
}

func (d routeKind) deleteBatch(ctx context.Context, ops []*routeOp) {
	doomed := make([]switchd.Route, len(ops))
	for i, o := range ops {
		doomed[i].Network = nameOf(o.Key, routePrefix)
	}
	for i, err := range d.client.DeleteRoutes(ctx, doomed) {
		if !errors.Is(err, switchd.ErrNotExist) {
			ops[i].Err = err
		}
	}
}

func (d routeKind) retrieve(ctx context.Context, s scheduler.Scope[Route, none]) iter.Seq2[scheduler.Found[Route, none], error] {
	return func(yield func(scheduler.Found[Route, none], error) bool) {
		state, err := d.client.State(ctx)
		if err != nil {
			yield(scheduler.Found[Route, none]{}, err)
			return
		}
		for _, r := range state.Routes {
			k := scheduler.Key(routePrefix + r.Network)
			v := Route{Bridge: r.Bridge, Port: portName(state, r.Port)}
			if s.Has(k) && !yield(scheduler.Found[Route, none]{Key: k, Value: v}, nil) {
				return
			}
		}
	}
}
