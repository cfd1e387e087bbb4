package iface

import (
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// optional are the settings that are left to others as long as no value names them. What we
// have set gets the kernel's default back when it is not named any more. That we did is known
// from the value before, and after a restart from the ledger: of a link we show only those
// that are named, or were.
var optional = []setting{
	{300, ofBridge(func(b *models.Bridge) **uint32 { return &b.AgeingTime })},
	{1, ofBridge(func(b *models.Bridge) **uint32 { return &b.DefaultPvid })},
	{32768, ofBridge(func(b *models.Bridge) **uint32 { return &b.Priority })},
	{15, ofBridge(func(b *models.Bridge) **uint32 { return &b.ForwardDelay })},
	{32, ofPort(func(p *models.BridgePort) **uint32 { return &p.Priority })},
}

// setting is a field, and the kernel's default for it.
type setting struct {
	byDefault uint32
	field     func(*models.Interface) **uint32 // nil where a value has no place for it
}

func ofBridge(field func(*models.Bridge) **uint32) func(*models.Interface) **uint32 {
	return func(v *models.Interface) **uint32 {
		if b := v.GetBridge(); b != nil {
			return field(b)
		}
		return nil
	}
}

func ofPort(field func(*models.BridgePort) **uint32) func(*models.Interface) **uint32 {
	return func(v *models.Interface) **uint32 {
		if p := v.GetBridgePort(); p != nil {
			return field(p)
		}
		return nil
	}
}

// namedIn is what the first of the values says that names the setting, nil if none does.
func (s setting) namedIn(values []*models.Interface) *uint32 {
	for _, v := range values {
		if p := s.field(v); p != nil && *p != nil {
			return *p
		}
	}
	return nil
}

// dropped is the value with what an earlier one named and this one does not, as it was then
// or, to be set, by the kernel's default; the value itself if there is nothing of the sort.
func (w *wish) dropped(byDefault bool) *models.Interface {
	v := w.value
	if port := w.askedOfBridge(); port != v.GetBridgePort() {
		v = v.Copy()
		v.BridgePort = port
	}
	for _, s := range optional {
		was, p := s.namedIn(w.before), s.field(v)
		if was == nil || p == nil || *p != nil {
			continue
		}
		if v == w.value {
			v = v.Copy()
		}
		if p = s.field(v); byDefault {
			*p = &s.byDefault
		} else {
			*p = was
		}
	}
	return v
}

// hideUnnamed takes from what was read of a link the settings that nobody has named: what
// others make of them is no drift.
func (d *iface) hideUnnamed(k scheduler.Key, v, hint *models.Interface) {
	if v.GetBridge() == nil && v.GetBridgePort() == nil {
		return
	}
	values := []*models.Interface{hint}
	if e, ok := d.Owner.Entry(string(k)); ok {
		values = append(values, kind.InterfaceOf(e))
	}
	for _, s := range optional {
		if p := s.field(v); p != nil && s.namedIn(values) == nil {
			*p = nil
		}
	}
}

// mayOptional compares two values of an optional setting.
func mayOptional(d *kind.Differences, field string, was, is *uint32) {
	text := func(n *uint32) string {
		if n == nil {
			return "unset"
		}
		return fmt.Sprint(*n)
	}
	d.May(text(was) != text(is), field, text(was), text(is))
}

// earlier are the values that the ledger and the scheduler know of a link, as far as they do.
func earlier(recorded *kernel.Entry, from *models.Interface) (values []*models.Interface) {
	if from != nil {
		values = append(values, from)
	}
	if recorded != nil {
		values = append(values, kind.InterfaceOf(*recorded))
	}
	return values
}
