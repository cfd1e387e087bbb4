package netlink

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// DeleteLinks removes many links for the price of one: each deletion waits for
// the kernel's grace periods, a deletion of a group waits once.
//
//  1. put them into a group that nobody is in, by all that chance allows
//  2. dump the links: is anybody else in it?
//  3. delete the group, or one by one
func (k *Kernel) DeleteLinks(ns kernel.NS, links []kernel.Link) error {
	return k.in(ns, fmt.Sprintf("delete %d links", len(links)), func(n *namespace) error {
		byIndex := func(a, b kernel.Link) int { return cmp.Compare(a.Index, b.Index) }
		links = slices.CompactFunc(slices.SortedFunc(slices.Values(links), byIndex),
			func(a, b kernel.Link) bool { return a.Index == b.Index })
		for _, l := range links {
			if err := checkIndex(l.Index); err != nil {
				return err
			}
		}
		if len(links) < 2 {
			return n.deleteEach(links)
		}
		return k.deleteGroup(n, links)
	})
}

func (k *Kernel) deleteGroup(n *namespace, doomed []kernel.Link) error {
	group := k.freshGroup()
	if err := n.setGroup(doomed, func(kernel.Link) uint32 { return group }); err != nil {
		return err
	}
	there, err := k.links(n)
	if err != nil {
		return err
	}
	foreign := slices.ContainsFunc(there, func(l kernel.Link) bool {
		_, ours := kernel.FindLink(doomed, l.Index)
		return l.Group == group && !ours
	})
	if !foreign {
		m := newMessage(unix.RTM_DELLINK, 0)
		m.link(unix.AF_UNSPEC, 0, 0, 0)
		m.u32(unix.IFLA_GROUP, group)
		if err = n.do(m, nil); err == nil || errors.Is(err, kernel.ErrNotExist) {
			return nil
		}
		// One that cannot be deleted keeps all others alive.
	}
	err = n.deleteEach(doomed)
	return errors.Join(err, n.restoreGroups(k, doomed, group))
}

// freshGroup is a group number by chance. The upper bit stays clear for tools that read it
// as a signed number, and 0 is the group of all that have none.
func (k *Kernel) freshGroup() (group uint32) {
	for group == 0 {
		group = k.opts.Random() &^ (1 << 31)
	}
	return group
}

// setGroup puts links into groups; links that are gone are no error.
func (n *namespace) setGroup(links []kernel.Link, group func(kernel.Link) uint32) error {
	ms := make([]*message, len(links))
	for i, l := range links {
		ms[i] = newMessage(unix.RTM_SETLINK, 0)
		ms[i].link(unix.AF_UNSPEC, l.Index, 0, 0)
		ms[i].u32(unix.IFLA_GROUP, group(l))
	}
	errs, err := n.doAll(ms, nil)
	if err != nil {
		return fmt.Errorf("group the links: %w", err)
	}
	for i, err := range errs {
		if err != nil && !errors.Is(err, kernel.ErrNotExist) {
			return fmt.Errorf("group link %d: %w", links[i].Index, err)
		}
	}
	return nil
}

// restoreGroups gives links that are still there the group they had.
func (n *namespace) restoreGroups(k *Kernel, doomed []kernel.Link, group uint32) error {
	links, err := k.links(n)
	if err != nil {
		return err
	}
	var left []kernel.Link
	for _, l := range doomed {
		if is, there := kernel.FindLink(links, l.Index); there && is.Group == group {
			left = append(left, l)
		}
	}
	return n.setGroup(left, func(l kernel.Link) uint32 { return l.Group })
}

func (n *namespace) deleteEach(links []kernel.Link) error {
	var errs []error
	for _, l := range links {
		if err := n.deleteLink(l.Index); err != nil && !errors.Is(err, kernel.ErrNotExist) {
			errs = append(errs, fmt.Errorf("link %d: %w", l.Index, err))
		}
	}
	return errors.Join(errs...)
}
