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
//  1. dump the links; those that are gone are done
//  2. put the others into a group that nobody is in
//  3. dump again: is anybody else in it by now?
//  4. delete the group, or one by one
func (k *Kernel) DeleteLinks(ns kernel.NS, indexes []int) error {
	return k.in(ns, fmt.Sprintf("delete %d links", len(indexes)), func(n *namespace) error {
		indexes = slices.Compact(slices.Sorted(slices.Values(indexes)))
		for _, index := range indexes {
			if err := checkIndex(index); err != nil {
				return err
			}
		}
		if len(indexes) < 2 {
			return n.deleteEach(indexes)
		}
		return k.deleteGroup(n, indexes)
	})
}

func (k *Kernel) deleteGroup(n *namespace, indexes []int) error {
	links, err := k.links(n)
	if err != nil {
		return err
	}
	var doomed []kernel.Link
	for _, l := range links {
		if _, ok := slices.BinarySearch(indexes, l.Index); ok {
			doomed = append(doomed, l)
		}
	}
	group := k.freeGroup(links)
	if err := n.setGroup(doomed, func(kernel.Link) uint32 { return group }); err != nil {
		return err
	}
	if links, err = k.links(n); err != nil {
		return err
	}
	foreign := slices.ContainsFunc(links, func(l kernel.Link) bool {
		_, ours := slices.BinarySearch(indexes, l.Index)
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
	err = n.deleteEach(indexes)
	return errors.Join(err, n.restoreGroups(k, doomed, group))
}

// freeGroup is a group number that none of the links has. The upper bit stays
// clear for tools that read it as a signed number.
func (k *Kernel) freeGroup(links []kernel.Link) uint32 {
	for {
		group := k.opts.Random() &^ (1 << 31)
		used := func(l kernel.Link) bool { return l.Group == group }
		if group != 0 && !slices.ContainsFunc(links, used) {
			return group
		}
	}
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
			return fmt.Errorf("group link %q: %w", links[i].Name, err)
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
		if i, ok := slices.BinarySearchFunc(links, l.Index, func(l kernel.Link, index int) int {
			return cmp.Compare(l.Index, index)
		}); ok && links[i].Group == group {
			left = append(left, l)
		}
	}
	return n.setGroup(left, func(l kernel.Link) uint32 { return l.Group })
}

func (n *namespace) deleteEach(indexes []int) error {
	var errs []error
	for _, index := range indexes {
		if err := n.deleteLink(index); err != nil && !errors.Is(err, kernel.ErrNotExist) {
			errs = append(errs, fmt.Errorf("link %d: %w", index, err))
		}
	}
	return errors.Join(errs...)
}
