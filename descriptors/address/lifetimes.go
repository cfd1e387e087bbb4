package address

import (
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
)

// lifetimes are those of an address as they were set, in seconds; 0 is for ever.
type lifetimes struct{ valid, preferred uint32 }

func lifetimesOf(v *models.Address) lifetimes {
	return lifetimes{v.GetValidLifetime(), v.EffectivePreferredLifetime()}
}

// slack is by how many seconds what is left and what has passed since may differ, together,
// from what was set: the kernel counts whole seconds by a clock of its own.
const slack = 3

// fit reports whether an address has these lifetimes, however much of them is left.
func (l lifetimes) fit(a kernel.Address) bool {
	switch {
	case !runs(l.valid, a.Valid, a.Age):
		return false
	case a.Deprecated:
		return l.preferred != 0 && l.preferred <= a.Age+slack
	}
	return runs(l.preferred, a.Preferred, a.Age)
}

// runs reports whether of a time that was set so much may be left.
func runs(set, left, age uint32) bool {
	if set == 0 || left == 0 {
		return set == left
	}
	sum := uint64(left) + uint64(age)
	return sum <= uint64(set)+slack && uint64(set) <= sum+slack
}

// told has a value tell the lifetimes of an address as they were set: as they are written,
// if that may be so, else as they can be measured.
func told(v *models.Address, a kernel.Address, written ...*models.Address) {
	for _, w := range written {
		if w != nil && lifetimesOf(w).fit(a) {
			v.ValidLifetime, v.PreferredLifetime = w.ValidLifetime, w.PreferredLifetime
			return
		}
	}
	if a.Valid != 0 {
		v.ValidLifetime = a.Valid + a.Age
	}
	switch {
	case a.Deprecated: // since when is not known
		v.PreferredLifetime = max(a.Age, 1)
	case a.Preferred != 0:
		v.PreferredLifetime = a.Preferred + a.Age
	}
}

// span says for how long an address is there.
func span(a kernel.Address) string {
	if a.Valid == 0 {
		return "for ever"
	}
	return fmt.Sprintf("for another %d s", a.Valid)
}

func inWords(seconds uint32) string {
	if seconds == 0 {
		return "for ever"
	}
	return fmt.Sprint(seconds)
}
