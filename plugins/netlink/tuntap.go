package netlink

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// addTuntap makes a tun or tap device. It has no netlink request for that: the
// device belongs to an open file until it is made to persist. That is done last,
// so one that is not finished and marked vanishes with its file.
func (k *Kernel) addTuntap(n *namespace, spec kernel.LinkSpec) (kernel.Link, error) {
	var fd int
	err := n.within(func() (err error) {
		fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return kernel.Link{}, unknownType("tun", err)
	}
	defer unix.Close(fd)
	n.writes.add(1)
	if err := attachTuntap(fd, spec); err != nil {
		return kernel.Link{}, err
	}
	// As long as a file is open there is a carrier, for which IPv6 would give an address to a device that is up.
	if err := unix.IoctlSetPointerInt(fd, unix.TUNSETCARRIER, 0); err != nil {
		return kernel.Link{}, fmt.Errorf("take the carrier off: %w", err)
	}
	l, err := k.link(n, spec.Name)
	if err != nil {
		return kernel.Link{}, err
	}
	if spec.Accepts != (kernel.AcceptSpec{}) {
		if err := n.setAccepts([]accepting{{spec.Name, spec.Accepts}})[0]; err != nil {
			return kernel.Link{}, err
		}
	}
	for _, m := range []func() (*message, error){
		func() (*message, error) { return naming(l.Index, namesOf(spec)) },
		func() (*message, error) { return settings(l.Index, settingsOf(spec)) },
	} {
		m, err := m()
		if err == nil && m != nil {
			err = n.do(m, nil)
		}
		if err != nil {
			return kernel.Link{}, err
		}
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1); err != nil {
		return kernel.Link{}, fmt.Errorf("let the device persist: %w", err)
	}
	return k.linkByIndex(n, l.Index)
}

// attachTuntap makes the device of an open file.
func attachTuntap(fd int, spec kernel.LinkSpec) error {
	s := spec.Tuntap
	// EXCL: a device of that name would be taken over otherwise.
	flags := uint16(unix.IFF_NO_PI | unix.IFF_TUN_EXCL)
	if s.Tun {
		flags |= unix.IFF_TUN
	} else {
		flags |= unix.IFF_TAP
	}
	if s.MultiQueue {
		flags |= unix.IFF_MULTI_QUEUE
	}
	if s.VnetHdr {
		flags |= unix.IFF_VNET_HDR
	}
	ifr, err := unix.NewIfreq(spec.Name)
	if err != nil {
		return err
	}
	ifr.SetUint16(flags)
	err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	if errors.Is(err, unix.EBUSY) {
		return refused(unix.EEXIST)
	}
	if err != nil {
		return refused(err)
	}
	for _, id := range []struct {
		request uint
		value   *uint32
	}{{unix.TUNSETOWNER, s.Owner}, {unix.TUNSETGROUP, s.Group}} {
		if id.value == nil {
			continue
		}
		if err := unix.IoctlSetInt(fd, id.request, int(*id.value)); err != nil {
			return fmt.Errorf("set owner: %w", err)
		}
	}
	return nil
}

func namesOf(spec kernel.LinkSpec) (p kernel.LinkPatch) {
	if spec.Alias != "" {
		p.Alias = &spec.Alias
	}
	if spec.Group != 0 {
		p.Group = &spec.Group
	}
	return p
}

func settingsOf(spec kernel.LinkSpec) (p kernel.LinkPatch) {
	if spec.MAC != "" {
		p.MAC = &spec.MAC
	}
	if spec.MTU != 0 {
		p.MTU = &spec.MTU
	}
	if spec.Master != 0 {
		p.Master = &spec.Master
	}
	if spec.Up {
		p.Up = &spec.Up
	}
	return p
}
