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

// The features and rings of devices. Only what a value names is read, compared and set; of
// links that Plumb made, what is named no longer stays as it is.

func differOffloads(d *kind.Differences, actual, desired *models.Interface) {
	was, is := actual.GetFeatures(), desired.GetFeatures()
	names := maps.Clone(is)
	if adopts(desired) { // the others are given back
		names = named{}
		maps.Copy(names, is)
		maps.Copy(names, was)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := onOff(was, name), onOff(is, name)
		d.May(a != b, "features."+name, a, orBack(b, b == ""))
	}
	ring := func(name string, was, is uint32) {
		d.May(was != is && (is != 0 || adopts(desired)), "rings."+name, was, orBack(fmt.Sprint(is), is == 0))
	}
	ring("rx", actual.GetRings().GetRx(), desired.GetRings().GetRx())
	ring("tx", actual.GetRings().GetTx(), desired.GetRings().GetTx())
}

func onOff(features map[string]bool, name string) string {
	switch on, there := features[name]; {
	case !there:
		return ""
	case on:
		return "on"
	}
	return "off"
}

// readOffloads reads those of a link that are asked for. What cannot be read is not there,
// so that whoever sets it is told why.
func (d *iface) readOffloads(l kernel.Link, v *models.Interface, features map[string]bool, rx, tx bool) {
	if len(features) > 0 {
		all, _ := d.Kernel.Features(l.NS, l.Index)
		for name := range features {
			if f, known := all[name]; known {
				if v.Features == nil {
					v.Features = map[string]bool{}
				}
				v.Features[name] = f.On
			}
		}
	}
	if !rx && !tx {
		return
	}
	now, err := d.Kernel.Rings(l.NS, l.Index)
	if err != nil {
		return
	}
	v.Rings = &models.Rings{}
	if rx {
		v.Rings.Rx = now.RX
	}
	if tx {
		v.Rings.Tx = now.TX
	}
}

// setOffloads gives a link what of its features and rings is not as asked, and reads it
// back: a device may take less than it is told. What it does not take makes it incomplete;
// nothing waits for that.
func (d *iface) setOffloads(w *wish, l kernel.Link) {
	var refused refusals
	err := errors.Join(d.setFeatures(w.value.GetFeatures(), l, &refused), d.setRings(w.value.GetRings(), l, &refused))
	if err == nil && len(refused) > 0 {
		err = scheduler.Terminal(errors.New(strings.Join(refused, "; ")))
	}
	if err != nil {
		w.incomplete = scheduler.Incomplete(explain(w, "set the offloads of", err))
	}
}

// refusals are settings that a device does not take, each with a remedy.
type refusals []string

func (r *refusals) add(format string, args ...any) { *r = append(*r, fmt.Sprintf(format, args...)) }

func (d *iface) setFeatures(want map[string]bool, l kernel.Link, refused *refusals) error {
	if len(want) == 0 {
		return nil
	}
	all, err := d.Kernel.Features(l.NS, l.Index)
	if err != nil {
		return err
	}
	change := map[string]bool{}
	var fixed []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		f, known := all[name]
		switch {
		case !known:
			refused.add("features.%s: this kernel knows no such feature%s", name, instead(name, all))
		case f.On == want[name]:
		case f.Fixed:
			fixed = append(fixed, "features."+name+" "+onOff(named{name: f.On}, name))
		default:
			change[name] = want[name]
		}
	}
	if len(fixed) > 0 {
		refused.add("the device has fixed %s; leave it out%s", strings.Join(fixed, ", "), changeable(all))
	}
	if len(change) == 0 {
		return nil
	}
	if err := d.Kernel.SetFeatures(l.NS, l.Index, change); err != nil {
		return err
	}
	if all, err = d.Kernel.Features(l.NS, l.Index); err != nil {
		return err
	}
	var left []string
	for _, name := range slices.Sorted(maps.Keys(change)) {
		if all[name].On != change[name] {
			left = append(left, name+" "+onOff(change, name))
		}
	}
	if len(left) > 0 {
		refused.add("features: the device did not take %s; another feature or the link below may forbid it, see ethtool -k %s",
			strings.Join(left, ", "), l.Name)
	}
	return nil
}

// instead returns a suggestion for the name of a feature that does not exist.
func instead(name string, all map[string]kernel.Feature) string {
	if near := models.Nearest(name, slices.Sorted(maps.Keys(all))); near != "" {
		return "; did you mean " + near + "?"
	}
	return changeable(all)
}

// changeable names what there is to choose from.
func changeable(all map[string]kernel.Feature) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !all[name].Fixed {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "; the link has none that can be changed"
	}
	return "; those of the link that can be changed are " + strings.Join(names, ", ")
}

func (d *iface) setRings(want *models.Rings, l kernel.Link, refused *refusals) error {
	if want.GetRx() == 0 && want.GetTx() == 0 {
		return nil
	}
	now, err := d.Kernel.Rings(l.NS, l.Index)
	if errors.Is(err, kernel.ErrUnsupported) {
		refused.add("rings: the device has no adjustable rings, or the driver does not report them; leave them out")
		return nil
	}
	if err != nil {
		return err
	}
	rx := takes("rx", want.GetRx(), now.RX, now.MaxRX, refused)
	tx := takes("tx", want.GetTx(), now.TX, now.MaxTX, refused)
	if rx == 0 && tx == 0 {
		return nil
	}
	if err := d.Kernel.SetRings(l.NS, l.Index, rx, tx); err != nil {
		return err
	}
	if now, err = d.Kernel.Rings(l.NS, l.Index); err != nil {
		return err
	}
	if rx != 0 && now.RX != rx || tx != 0 && now.TX != tx {
		refused.add("rings: the device made rx %d, tx %d of what was asked; write what it can", now.RX, now.TX)
	}
	return nil
}

// takes returns the size to set for a ring: 0 if it has that size already, or the device does not take it.
func takes(ring string, want, now, most uint32, refused *refusals) uint32 {
	switch {
	case want > most:
		refused.add("rings.%s: the device takes at most %d, not %d", ring, most, want)
		return 0
	case want == now:
		return 0
	}
	return want
}

// rememberOffloads keeps in prior what those are that are about to be changed for the first
// time. Of a feature that is what was asked of the device, which it takes up when it can.
func (d *iface) rememberOffloads(prior *settings, want settings, l kernel.Link) error {
	if len(want.Features) > 0 {
		all, err := d.Kernel.Features(l.NS, l.Index)
		if err != nil {
			return err
		}
		prior.Features = prior.Features.remember(want.Features, requested(all))
	}
	if want.RX == nil && want.TX == nil {
		return nil
	}
	now, err := d.Kernel.Rings(l.NS, l.Index)
	if errors.Is(err, kernel.ErrUnsupported) {
		return nil // setRings says so
	}
	prior.RX, prior.TX = first(prior.RX, want.RX, &now.RX), first(prior.TX, want.TX, &now.TX)
	return err
}

func requested(all map[string]kernel.Feature) named {
	on := named{}
	for name, f := range all {
		on[name] = f.Requested
	}
	return on
}

// giveBackOffloads restores what was before us, where the link still is as we set it.
func (d *iface) giveBackOffloads(l kernel.Link, set, back settings) error {
	if len(back.Features) > 0 {
		all, err := d.Kernel.Features(l.NS, l.Index)
		if err != nil {
			return err
		}
		change := map[string]bool{}
		for name, was := range back.Features {
			f := all[name]
			if ours, asked := set.Features[name]; (!asked || f.On == ours) && !f.Fixed && f.Requested != was {
				change[name] = was
			}
		}
		if len(change) > 0 {
			if err := d.Kernel.SetFeatures(l.NS, l.Index, change); err != nil {
				return err
			}
		}
	}
	if back.RX == nil && back.TX == nil {
		return nil
	}
	now, err := d.Kernel.Rings(l.NS, l.Index)
	if err != nil {
		return err
	}
	rx, tx := unless(mine(back.RX, set.RX, &now.RX), &now.RX), unless(mine(back.TX, set.TX, &now.TX), &now.TX)
	if rx == nil && tx == nil {
		return nil
	}
	return d.Kernel.SetRings(l.NS, l.Index, orZero(rx), orZero(tx))
}
