package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/plumb-net/plumb/examples/dataplane/switchd"
	"github.com/plumb-net/plumb/scheduler"
)

// Bridge joins ports.
type Bridge struct{ Ports []string }

// Equal: the order of ports means nothing.
func (b Bridge) Equal(o Bridge) bool {
	return slices.Equal(slices.Sorted(slices.Values(b.Ports)), slices.Sorted(slices.Values(o.Ports)))
}

const bridgePrefix = "dp/bridge/"

func indexText(index uint32) string { return strconv.FormatUint(uint64(index), 10) }

// bridges makes bridges. All bridges of the dataplane are ours.
func bridges(c *switchd.Client, view portView) scheduler.Descriptor[Bridge, none] {
	type found = scheduler.Found[Bridge, none]
	set := func(ctx context.Context, k scheduler.Key, v Bridge) error {
		indexes, err := indexesOf(view, v.Ports...)
		if err != nil {
			return err
		}
		return c.SetBridge(ctx, switchd.Bridge{Name: nameOf(k, bridgePrefix), Ports: indexes})
	}
	return scheduler.Descriptor[Bridge, none]{
		Name: "dp/bridge", Prefix: bridgePrefix,
		Create: func(ctx context.Context, k scheduler.Key, v Bridge) (none, error) { return none{}, set(ctx, k, v) },
		Update: func(ctx context.Context, k scheduler.Key, _, to Bridge, _ none) (none, error) {
			return none{}, set(ctx, k, to)
		},
		Delete: func(ctx context.Context, k scheduler.Key, _ Bridge, _ none) error {
			if err := c.DeleteBridge(ctx, nameOf(k, bridgePrefix)); !errors.Is(err, switchd.ErrNotExist) {
				return err
			}
			return nil
		},
		Needs: func(_ scheduler.Key, v Bridge) []scheduler.Need {
			needs := []scheduler.Need{onProcess()}
			for _, port := range v.Ports {
				needs = append(needs, onPort(port, "a port of the bridge"))
			}
			return needs
		},
		Retrieve: func(ctx context.Context, s scheduler.Scope[Bridge, none]) iter.Seq2[found, error] {
			return func(yield func(found, error) bool) {
				state, err := c.State(ctx)
				if err != nil {
					yield(found{}, err)
					return
				}
				for _, b := range state.Bridges {
					k, v := scheduler.Key(bridgePrefix+b.Name), Bridge{}
					for _, index := range b.Ports {
						v.Ports = append(v.Ports, portName(state, index))
					}
					if s.Has(k) && !yield(found{Key: k, Value: v}, nil) {
						return
					}
				}
			}
		},
		Watch: portKind{c}.watch,
	}
}

// indexesOf finds ports by name. They were needed, so they are in place.
func indexesOf(view portView, names ...string) (indexes []uint32, err error) {
	for _, name := range names {
		_, index, ok := view.Get(portKey(name))
		if !ok {
			return nil, fmt.Errorf("the port %s is not there any more", name)
		}
		indexes = append(indexes, index)
	}
	slices.Sort(indexes)
	return indexes, nil
}

// portName is the name of a port by its index; of one that is not ours it is a
// name that none of ours can have.
func portName(state switchd.State, index uint32) string {
	for _, p := range state.Ports {
		if p.Index == index {
			return nameOf(p.Tag, portPrefix)
		}
	}
	return "?" + indexText(index)
}
