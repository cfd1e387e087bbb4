package address_test

import (
	"fmt"
	"testing"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Addresses that are made together take one call of the kernel, and so do those that are
// deleted together. One that somebody else has put there otherwise keeps none of the others
// from being made, and stays.
func TestTogether(t *testing.T) {
	b := newBench(t)
	var ops []*op
	for i := range 20 {
		link, cidr := fmt.Sprintf("l%d", i), fmt.Sprintf("10.0.%d.1/24", i)
		value := `{"bridge":{}}`
		if i == 3 {
			value = `{"existing":{}}`
		}
		b.link(link, value)
		if i == 3 {
			b.net.IP(t, "addr add "+cidr+" dev "+link+" label "+link+":x")
		}
		k := scheduler.Key(models.AddressKey(link, cidr))
		b.wanted[k] = true
		ops = append(ops, &op{Key: k, Value: decode(t, fmt.Sprintf(`{"interface":%q,"address":%q,"label":%q}`, link, cidr, link+":y"))[0]})
	}
	b.kind.CreateBatch(t.Context(), ops)
	for _, o := range ops {
		if foreign := o.Value.GetInterface() == "l3"; foreign != conflict(o.Err) || !foreign && o.Err != nil {
			t.Errorf("%s: %v", o.Key, o.Err)
		}
		if got := b.shown(o.Value.GetInterface()); got != o.Value.GetAddress() {
			t.Errorf("%s: %s", o.Key, got)
		}
	}
	if b.kernelOf.added != 1 {
		t.Errorf("%d calls for %d addresses", b.kernelOf.added, len(ops))
	}
	b.kind.DeleteBatch(t.Context(), ops)
	for _, o := range ops {
		if foreign := o.Value.GetInterface() == "l3"; o.Err != nil || foreign != (b.shown(o.Value.GetInterface()) != "") {
			t.Errorf("%s is deleted: %v", o.Key, o.Err)
		}
	}
	if b.kernelOf.removals != 1 || b.removed() != 19 {
		t.Errorf("%d calls that remove %d addresses", b.kernelOf.removals, b.removed())
	}
}
