package address_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestConform holds the kind to the contract of descriptors, on each kernel:
// on a link of ours, where all addresses are ours to say, and on one of others.
func TestConform(t *testing.T) {
	type samples = []schedulertest.Sample[*models.Address]
	one := func(name, cidr string) *models.Address { return &models.Address{Interface: name, Address: cidr} }
	for name, c := range map[string]struct {
		samples samples
		foreign bool
	}{
		"ours": {samples: samples{
			{Key: "address/web/10.0.0.1/24", Values: []*models.Address{one("web", "10.0.0.1/24")}},
			{Key: "address/web/fd00::1/64", Values: []*models.Address{one("web", "fd00::1/64")}},
			{Key: "address/vip", Values: []*models.Address{one("web", "10.1.0.1/24"), one("web", "10.1.0.2/24"),
				{Interface: "web", Address: "10.1.0.1/24", Label: "web:x"}, {Interface: "web", Address: "10.1.0.1/24", Scope: "link"},
				{Interface: "web", Address: "10.1.0.1/24", ValidLifetime: 600}, {Interface: "web", Address: "10.1.0.1/24", ValidLifetime: 900, PreferredLifetime: 60},
				{Interface: "web", Address: "fd00:2::1/64", PreferredLifetime: 60}, {Interface: "web", Address: "fd00:2::1/64", PreferredLifetime: 90}, one("web", "10.0.0.7/24"), one("eth9", "10.1.0.1/24")}},
		}},
		"of others": {foreign: true, samples: samples{
			{Key: "address/eth9/10.0.0.1/24", Values: []*models.Address{one("eth9", "10.0.0.1/24")}},
			{Key: "address/eth9/fd00::1/64", Values: []*models.Address{one("eth9", "fd00::1/64")}},
			{Key: "address/vip", Values: []*models.Address{one("eth9", "10.1.0.1/24"), one("eth9", "fd00:1::1/64")}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) { conform(t, newBenchOn(t, h), c.samples, c.foreign) })
		})
	}
}

func conform(t *testing.T, b *bench, samples []schedulertest.Sample[*models.Address], foreign bool) {
	b.link("web", `{"bridge":{},"addresses_exclusive":true}`)
	b.link("eth9", `{"existing":{}}`)
	spec := schedulertest.Spec[*models.Address, kernel.AddressRef]{
		Samples: samples,
		Refused: map[scheduler.Key]*models.Address{"address/bad": {Interface: "web", Address: "10.0.0.1"}},
		Restart: func(testing.TB) scheduler.Descriptor[*models.Address, kernel.AddressRef] {
			b.restart()
			return b.kind
		},
		Remove: func(t testing.TB, k scheduler.Key) {
			for _, s := range samples {
				if v := s.Values[0]; s.Key == k {
					b.Do(t, b.Own(), "ip addr del "+v.GetAddress()+" dev "+v.GetInterface())
				}
			}
		},
		Clone:     proto.CloneOf[*models.Address],
		Identical: func(x, y *models.Address) bool { return proto.Equal(x, y) },
	}
	if foreign {
		// An address as we would make it is shared; with other settings it is a conflict.
		spec.Foreign = func(t testing.TB, _ scheduler.Key, v *models.Address) func() bool {
			at := v.GetAddress() + " dev " + v.GetInterface()
			b.Do(t, b.Own(), "ip addr add "+at+" valid_lft 999 preferred_lft 999")
			t.Cleanup(func() { b.Do(t, b.Own(), "ip addr del "+at) })
			return func() bool { return b.Shows(t, "ip addr add "+at) }
		}
	}
	schedulertest.Conform(t, b.kind, spec)
}
