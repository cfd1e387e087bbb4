package main

import (
	"github.com/plumb-net/plumb/descriptors/iface"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/scheduler"
)

// label is under which name the agent owns things in the kernel.
const label = "dataplane"

// registerLinux registers Plumb's kind of interfaces for the agent's own network
// namespace. The ledger says what is ours after a restart; one that is to outlive
// the process is in plugins/ledger.
func registerLinux(s *scheduler.Scheduler, k *netlink.Kernel, ledger kernel.Ledger) error {
	self := &iface.Self{} // the kind asks the scheduler about other interfaces
	interfaces, err := scheduler.Register(s, iface.New(iface.Deps{
		Kernel: k, Owner: kernel.NewOwner(label, "this boot", ledger, nil), Names: &kernel.Names{},
		Places: selector.NewResolver(k, selector.Views{}), Interfaces: self,
	}))
	if err != nil {
		return err
	}
	self.Bind(interfaces)
	return nil
}
