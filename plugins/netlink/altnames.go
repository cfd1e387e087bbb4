package netlink

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// AddAltName gives a link one more name.
func (k *Kernel) AddAltName(ns kernel.NS, index int, name string) error {
	return k.changeAltName(ns, "add", unix.RTM_NEWLINKPROP, index, name)
}

// RemoveAltName takes an alternative name from a link.
func (k *Kernel) RemoveAltName(ns kernel.NS, index int, name string) error {
	return k.changeAltName(ns, "remove", unix.RTM_DELLINKPROP, index, name)
}

func (k *Kernel) changeAltName(ns kernel.NS, doing string, typ, index int, name string) error {
	return k.in(ns, fmt.Sprintf("%s alternative name %q of link %d", doing, name, index), func(n *namespace) error {
		if err := checkIndex(index); err != nil {
			return err
		}
		m := newMessage(typ, 0)
		m.link(unix.AF_UNSPEC, index, 0, 0)
		list := m.open(unix.IFLA_PROP_LIST)
		m.str(unix.IFLA_ALT_IFNAME, name)
		m.close(list)
		return n.do(m, nil)
	})
}

// parseAltNames reads the properties of a link, of which the alternative names are all so far.
func parseAltNames(b []byte) (list []string) {
	for typ, v := range attributes(b) {
		if typ == unix.IFLA_ALT_IFNAME {
			list = append(list, asString(v))
		}
	}
	return list
}
