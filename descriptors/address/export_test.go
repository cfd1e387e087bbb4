package address

import (
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
)

// Fit reports whether an address has the lifetimes of a value.
func Fit(v *models.Address, a kernel.Address) bool { return lifetimesOf(v).fit(a) }

// Told is a value like v, with the lifetimes that are told of an address.
func Told(v *models.Address, a kernel.Address) *models.Address {
	t := &models.Address{Interface: v.Interface, Address: v.Address}
	told(t, a, v)
	return t
}
