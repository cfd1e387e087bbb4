package kind

import (
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/scheduler"
)

// Down adds to an error of the kernel the first of the interfaces whose link is down, and returns
// the error as it is if none is. The operation is tried again when the link goes up. The kernel
// itself does not name the link, and often reports a route to the gateway as missing.
func Down(k kernel.Links, all Interfaces, err error, names ...string) error {
	for _, name := range names {
		key := interfaceKey(name)
		v, ref, there := all.Get(key)
		if !there {
			continue
		}
		if l, unread := k.LinkByIndex(ref.NS, ref.Index); unread != nil || l.Up {
			continue
		}
		on := key
		if v.GetExisting() != nil { // its value does not change when the link does
			on = selector.LinkKey(v.GetNamespace(), v.EffectiveHostName(string(key)))
		}
		return scheduler.Blocked(on, fmt.Errorf("%s is down: %w", key, err))
	}
	return err
}
