package kernel_test

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Two routes that differ in any one field are not equal, also in one that comes later.
func TestRouteEqual(t *testing.T) {
	if !(kernel.Route{}).Equal(kernel.Route{}) {
		t.Error("a route is not equal to itself")
	}
	other := map[reflect.Type]any{
		reflect.TypeFor[netip.Prefix]():     netip.MustParsePrefix("10.0.0.0/8"),
		reflect.TypeFor[netip.Addr]():       netip.MustParseAddr("10.0.0.1"),
		reflect.TypeFor[uint32]():           uint32(1),
		reflect.TypeFor[uint8]():            uint8(1),
		reflect.TypeFor[int]():              1,
		reflect.TypeFor[string]():           "x",
		reflect.TypeFor[bool]():             true,
		reflect.TypeFor[kernel.Encap]():     kernel.Encap{ID: 1},
		reflect.TypeFor[[]kernel.NextHop](): []kernel.NextHop{{Index: 1}},
	}
	for f := range reflect.TypeFor[kernel.Route]().Fields() {
		var r kernel.Route
		reflect.ValueOf(&r).Elem().FieldByIndex(f.Index).Set(reflect.ValueOf(other[f.Type]))
		if r.Equal(kernel.Route{}) || (kernel.Route{}).Equal(r) {
			t.Errorf("%s is not compared", f.Name)
		}
	}
}
