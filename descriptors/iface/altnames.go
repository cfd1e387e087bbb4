package iface

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// The alternative names of links. The kernel does not keep who gave one: ours are those that
// a value names, or named when the ledger was last written. Others, such as udev's, stay.

func differAltNames(d *kind.Differences, was, is []string, unset string) {
	a, b := slices.Sorted(slices.Values(was)), slices.Sorted(slices.Values(is))
	to := strings.Join(b, ", ")
	if len(b) == 0 {
		to = unset
	}
	d.May(!slices.Equal(a, b), "alternative_names", strings.Join(a, ", "), to)
}

// readAltNames are those of a link that are ours, in the order in which they were asked for.
func (d *iface) readAltNames(k scheduler.Key, l kernel.Link, hint *models.Interface) (list []string) {
	if len(l.AltNames) == 0 {
		return nil
	}
	asked := slices.Clone(hint.GetAlternativeNames())
	if e, ok := d.Owner.Entry(string(k)); ok {
		asked = append(asked, kind.InterfaceOf(e).GetAlternativeNames()...)
	}
	for _, name := range asked {
		if slices.Contains(l.AltNames, name) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// staleAltNames were asked for before and are not any more.
func (w *wish) staleAltNames() (names []string) {
	for _, v := range w.before {
		names = append(names, v.GetAlternativeNames()...)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return slices.Contains(w.value.GetAlternativeNames(), name)
	})
}

// removeAltNames takes names from a link that has them. One that has gone by itself is no
// error, and a link that has gone is told by whatever is done next.
func (d *iface) removeAltNames(l kernel.Link, names []string) error {
	for _, name := range names {
		if !slices.Contains(l.AltNames, name) {
			continue
		}
		if err := d.Kernel.RemoveAltName(l.NS, l.Index, name); err != nil && !kernel.IsGone(err) {
			return err
		}
	}
	return nil
}

// addAltNames gives a link the names that it lacks.
func (d *iface) addAltNames(v *models.Interface, l kernel.Link) error {
	for _, name := range v.GetAlternativeNames() {
		if slices.Contains(l.AltNames, name) {
			continue
		}
		err := d.Kernel.AddAltName(l.NS, l.Index, name)
		if errors.Is(err, kernel.ErrExist) {
			err = d.altNameTaken(l, name, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// altNameTaken says which link has a name that another is to have; nil if that has it by now.
func (d *iface) altNameTaken(l kernel.Link, name string, refused error) error {
	all, err := d.Kernel.Links(l.NS)
	if err != nil {
		return err
	}
	for _, other := range all {
		switch {
		case other.Name != name && !slices.Contains(other.AltNames, name):
			continue
		case other.Index == l.Index && other.Name != name:
			return nil
		}
		if key := d.holder("", other); key != "" {
			return scheduler.Blocked(key, fmt.Errorf("the alternative name %s is in use by %s", name, key))
		}
		remedy := "choose another"
		if other.Name != name {
			remedy += fmt.Sprintf(", or take it from that: ip link property del dev %s altname %s", other.Name, name)
		}
		return scheduler.Conflict(d.ownerOf(other), fmt.Errorf(
			"the alternative name %s is a name of the %s %s already, which is not ours; %s", name, other.Type, other.Name, remedy))
	}
	return refused // whoever had it has gone
}

func askedAltNames(v *models.Interface) named {
	names := named{}
	for _, name := range v.GetAlternativeNames() {
		names[name] = true
	}
	return names
}

func currentAltNames(l kernel.Link) named {
	names := named{}
	for _, name := range l.AltNames {
		names[name] = true
	}
	return names
}

// giveBackAltNames takes from an adopted link those that it did not have before.
func (d *iface) giveBackAltNames(l kernel.Link, back named) error {
	var added []string
	for _, name := range slices.Sorted(maps.Keys(back)) {
		if !back[name] {
			added = append(added, name)
		}
	}
	return d.removeAltNames(l, added)
}
