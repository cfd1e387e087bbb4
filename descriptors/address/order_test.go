package address_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/scheduler"
)

// TestOrder plays random histories of a list of addresses: it gets others, loses some, is in another
// order, and others delete and add them. The kernel lists them in the order of the list, but for
// the primary address of each network, which come first.
func TestOrder(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) {
		b := newBenchOn(t, h)
		link := b.link("web", `{"bridge":{}}`)
		all := []string{"10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24", "10.1.0.1/24", "10.1.0.2/24", "10.2.0.1/16"}
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		var list []string
		for step := range 60 {
			what := []string{"list", "restart", "others"}[min(random.IntN(8), 2)%3]
			switch what {
			case "list":
				random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				list = slices.Clone(all[:1+random.IntN(len(all))])
			case "restart":
				b.restart()
			case "others":
				if len(list) > 0 {
					a := list[random.IntN(len(list))]
					b.Do(t, b.Own(), "ip addr del "+a+" dev web")
					b.Do(t, b.Own(), "ip addr add "+a+" dev web")
				}
			}
			b.reconcile("web", list)
			there, err := b.Addresses(b.Own(), link.Index)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range there {
				if a.Prefix.Addr().Is4() {
					got = append(got, a.Prefix.String())
				}
			}
			if want := listed(list); !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d, %s: the list is %s, the kernel has %s, want %s", seed, step, what,
					strings.Join(list, " "), strings.Join(got, " "), strings.Join(want, " "))
			}
		}
	})
}

// listed is how the kernel lists addresses that are in order.
func listed(list []string) []string {
	var primary, secondary []string
	seen := map[netip.Prefix]bool{}
	for _, a := range list {
		if network := netip.MustParsePrefix(a).Masked(); seen[network] {
			secondary = append(secondary, a)
		} else {
			primary, seen[network] = append(primary, a), true
		}
	}
	return append(primary, secondary...)
}

// reconcile does what the scheduler does for a list of addresses.
func (b *bench) reconcile(iface string, list []string) {
	b.t.Helper()
	wanted := map[scheduler.Key]*models.Address{}
	for i, a := range list {
		k := scheduler.Key(models.AddressKey(iface, a))
		wanted[k] = decode(b.t, fmt.Sprintf(`{"interface":%q,"address":%q,"position":%d}`, iface, a, i+1))[0]
		b.wanted[k] = true
	}
	s := scope{All: true}
	for k, v := range wanted {
		s.Known = append(s.Known, known{Key: k, Value: v, Meta: kernel.AddressRef{}})
	}
	there := map[scheduler.Key]scheduler.Found[*models.Address, kernel.AddressRef]{}
	for f, err := range b.kind.Retrieve(b.t.Context(), s) {
		if err != nil {
			b.t.Fatal(err)
		}
		there[f.Key] = f
	}
	var gone, fresh []*op
	for k, f := range there {
		if wanted[k] == nil {
			delete(b.wanted, k)
			gone = append(gone, &op{Key: k, Value: f.Value, Meta: f.Meta})
		}
	}
	b.kind.DeleteBatch(b.t.Context(), gone)
	for k, v := range wanted {
		f, is := there[k]
		if !is {
			fresh = append(fresh, &op{Key: k, Value: v})
		} else if c := b.kind.Compare(k, f.Value, v); c.Change != scheduler.Same {
			if _, err := b.kind.Update(b.t.Context(), k, f.Value, v, f.Meta); err != nil {
				b.t.Fatalf("update %s: %v", k, err)
			}
		}
	}
	b.kind.CreateBatch(b.t.Context(), fresh)
	for _, o := range append(gone, fresh...) {
		if o.Err != nil {
			b.t.Fatalf("%s: %v", o.Key, o.Err)
		}
	}
}
