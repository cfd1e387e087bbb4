package main

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/plumb-net/plumb/examples/dataplane/switchd"
	"github.com/plumb-net/plumb/scheduler"
)

type none = struct{} // no metadata

// Process is a life of the dataplane.
type Process struct{ Boot int }

const processKey scheduler.Key = "dp/process/switchd"

// processes is the kind of the dataplane itself. A connection that is lost says
// nothing of what is behind it, so the key is unknown then and not absent.
func processes(c *switchd.Client) scheduler.Descriptor[Process, none] {
	type found = scheduler.Found[Process, none]
	return scheduler.Descriptor[Process, none]{
		Name: "dp/process", Prefix: "dp/process/",
		Retrieve: func(ctx context.Context, _ scheduler.Scope[Process, none]) iter.Seq2[found, error] {
			return func(yield func(found, error) bool) {
				state, err := c.State(ctx)
				yield(found{Key: processKey, Value: Process{Boot: state.Boot}}, err)
			}
		},
		Watch: func(ctx context.Context, notify func(...scheduler.Key)) error {
			return c.Watch(ctx, func(e switchd.Event) {
				if e.All {
					notify(processKey)
				}
			})
		},
	}
}

// onProcess is what everything in the dataplane needs. What was made in one life
// is not there in the next.
func onProcess() scheduler.Need {
	return scheduler.Project(scheduler.On(processKey, "the dataplane"),
		func(p Process, _ none) string { return fmt.Sprint("boot ", p.Boot) })
}

// Carrier says that a port has a link.
type Carrier struct{}

const carrierPrefix = "dp/carrier/"

func carrierKey(port string) scheduler.Key { return scheduler.Key(carrierPrefix + port) }

// carriers is the kind of links that ports have. The dataplane tells when one
// comes or goes.
func carriers(c *switchd.Client) scheduler.Descriptor[Carrier, none] {
	type found = scheduler.Found[Carrier, none]
	return scheduler.Descriptor[Carrier, none]{
		Name: "dp/carrier", Prefix: carrierPrefix,
		Retrieve: func(ctx context.Context, s scheduler.Scope[Carrier, none]) iter.Seq2[found, error] {
			return func(yield func(found, error) bool) {
				ports, err := ourPorts(ctx, c)
				if err != nil {
					yield(found{}, err)
					return
				}
				for _, p := range ports {
					k := carrierKey(nameOf(p.Tag, portPrefix))
					if p.Up && s.Has(k) && !yield(found{Key: k}, nil) {
						return
					}
				}
			}
		},
		Watch: func(ctx context.Context, notify func(...scheduler.Key)) error {
			return c.Watch(ctx, func(e switchd.Event) {
				if e.All {
					notify()
				} else if name, ours := strings.CutPrefix(e.Tag, portPrefix); ours {
					notify(carrierKey(name))
				}
			})
		},
	}
}
