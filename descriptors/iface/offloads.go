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
// back: a device may take less than it is told.
func (d *iface) setOffloads(v *models.Interface, l kernel.Link) error {
	if err := d.setFeatures(v, l); err != nil {
		return err
	}
	return d.setRings(v.GetRings(), l)
}

func (d *iface) setFeatures(v *models.Interface, l kernel.Link) error {
	want := v.GetFeatures()
	if len(want) == 0 {
		return nil
	}
	all, err := d.Kernel.Features(l.NS, l.Index)
	if err != nil {
		return err
	}
	change := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		f, known := all[name]
		switch {
		case !known:
			return unknownFeature(name, all)
		case f.On == want[name]:
		case f.Fixed:
			return scheduler.Terminal(fmt.Errorf("features.%s: a %s has it fixed %s; leave it out%s",
				name, v.LinkType(), onOff(named{name: f.On}, name), changeable(all)))
		default:
			change[name] = want[name]
		}
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
	var refused []string
	for _, name := range slices.Sorted(maps.Keys(change)) {
		if all[name].On != change[name] {
			refused = append(refused, name+" "+onOff(change, name))
		}
	}
	if len(refused) > 0 {
		return scheduler.Terminal(fmt.Errorf("features: the device did not take %s; another feature or the link below may forbid it, see ethtool -k %s",
			strings.Join(refused, ", "), l.Name))
	}
	return nil
}

func unknownFeature(name string, all map[string]kernel.Feature) error {
	known := changeable(all)
	if near := models.Nearest(name, slices.Sorted(maps.Keys(all))); near != "" {
		known = "; did you mean " + near + "?"
	}
	return scheduler.Terminal(fmt.Errorf("features.%s: this kernel knows no such feature%s", name, known))
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

func (d *iface) setRings(want *models.Rings, l kernel.Link) error {
	if want.GetRx() == 0 && want.GetTx() == 0 {
		return nil
	}
	now, err := d.Kernel.Rings(l.NS, l.Index)
	if errors.Is(err, kernel.ErrUnsupported) {
		return scheduler.Terminal(errors.New("rings: the device has none that can be changed, or the kernel cannot tell; leave them out"))
	}
	if err != nil {
		return err
	}
	if want.GetRx() > now.MaxRX {
		return scheduler.Terminal(fmt.Errorf("rings.rx: the device takes at most %d, not %d", now.MaxRX, want.GetRx()))
	}
	if want.GetTx() > now.MaxTX {
		return scheduler.Terminal(fmt.Errorf("rings.tx: the device takes at most %d, not %d", now.MaxTX, want.GetTx()))
	}
	rx, tx := orStays(want.GetRx(), now.RX), orStays(want.GetTx(), now.TX)
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
		return scheduler.Terminal(fmt.Errorf("rings: the device made rx %d, tx %d of what was asked; write what it can", now.RX, now.TX))
	}
	return nil
}

// orStays is what is to be set of a ring: 0 if nothing.
func orStays(want, now uint32) uint32 {
	if want == now {
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
