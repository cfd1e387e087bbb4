package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/examples/dataplane/switchd"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/scheduler"
)

// Agent keeps a dataplane, and the taps that it stands on, as they are wanted.
type Agent struct {
	*scheduler.Scheduler
	client *switchd.Client
	kernel *netlink.Kernel
}

// NewAgent makes an agent for the dataplane at a socket and the network namespace
// at a path.
func NewAgent(socket, netns string) (*Agent, error) {
	k, err := netlink.New(netlink.Options{OwnPath: netns})
	if err != nil {
		return nil, err
	}
	a := &Agent{
		Scheduler: scheduler.New(scheduler.Options{RetryMin: 20 * time.Millisecond}),
		client:    switchd.NewClient(socket), kernel: k,
	}
	if err := a.register(); err != nil {
		k.Close()
		return nil, err
	}
	return a, nil
}

func (a *Agent) register() error {
	if err := registerLinux(a.Scheduler, a.kernel, &kernel.MemLedger{}); err != nil {
		return err
	}
	view, err := scheduler.Register(a.Scheduler, ports(a.client))
	if err != nil {
		return err
	}
	_, process := scheduler.Register(a.Scheduler, processes(a.client))
	_, carrier := scheduler.Register(a.Scheduler, carriers(a.client))
	_, bridge := scheduler.Register(a.Scheduler, bridges(a.client, view))
	_, route := scheduler.Register(a.Scheduler, routes(a.client, view))
	return errors.Join(process, carrier, bridge, route)
}

// Run works until ctx ends. Who uses others ends before them: the scheduler
// before the connection, the connection before the kernel.
func (a *Agent) Run(ctx context.Context) error {
	defer a.kernel.Close()
	connected, disconnect := context.WithCancel(context.Background())
	var background sync.WaitGroup
	background.Go(func() { _ = a.client.Run(connected) })
	defer background.Wait()
	defer disconnect()
	return a.Scheduler.Run(ctx)
}
