package route_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestConform holds the kind to the contract of descriptors, on each kernel.
func TestConform(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) { conform(t, newBenchOn(t, h)) })
}

func conform(t *testing.T, b *bench) {
	sample := func(name string, values ...string) schedulertest.Sample[*models.Route] {
		return schedulertest.Sample[*models.Route]{Key: scheduler.Key(models.RouteKey(name)), Values: decode(t, strings.Join(values, "\n"))}
	}
	samples := []schedulertest.Sample[*models.Route]{
		sample("default", `{"interface":"a","destination":"default","gateway":"10.0.0.9"}`, `{"interface":"b","destination":"0.0.0.0/0","gateway":"10.0.1.9","mtu":1300}`,
			`{"interface":"c","destination":"default","gateway":"10.0.2.9"}`, `{"interface":"a","destination":"default","gateway":"10.0.0.9","metric":9}`),
		sample("six", `{"interface":"a","destination":"fd01::/64","gateway":"fd00::9"}`, `{"interface":"b","destination":"fd01::/64","metric":7}`,
			`{"destination":"fd01::/64","nexthops":[{"interface":"b","gateway":"fd00:1::9","weight":2},{"interface":"a","gateway":"fd00::9"}]}`),
		sample("hole", `{"destination":"10.1.0.0/16","type":"blackhole"}`, `{"destination":"10.1.0.0/16","type":"prohibit"}`,
			`{"namespace":{"netns":"blue"},"destination":"10.1.0.0/16","type":"blackhole"}`, `{"interface":"a","destination":"10.1.0.0/16","scope":"link"}`),
		sample("ways", `{"destination":"10.2.0.0/16","nexthops":[{"interface":"a","gateway":"10.0.0.9"},{"interface":"b","gateway":"10.0.1.9"}]}`,
			`{"interface":"a","destination":"10.2.0.0/16","table":500}`,
			`{"destination":"10.2.0.0/16","nexthops":[{"interface":"a","encap":{"id":7,"dst":"192.0.2.1"}},{"interface":"a","encap":{"id":7,"dst":"2001:db8::1"}}]}`,
			`{"interface":"a","destination":"10.2.0.0/16","encap":{"id":8,"dst":"192.0.2.1","src":"192.0.2.2","ttl":9,"tos":16}}`, `{"destination":"10.2.0.0/16","nexthop":"n"}`),
		sample("shared", `{"destination":"10.4.0.0/16","nexthop":"n"}`, `{"destination":"10.4.0.0/16","nexthop":"hole","mtu":1300}`,
			`{"destination":"10.4.0.0/16","nexthop":"m","metric":7}`, `{"interface":"c","destination":"10.4.0.0/16"}`),
		sample("shared6", `{"destination":"fd04::/64","nexthop":"six"}`, `{"interface":"a","destination":"fd04::/64"}`),
		sample("held", `{"interface":"a","destination":"claim:web"}`, `{"interface":"b","destination":"claim:web6"}`,
			`{"interface":"b","destination":"claim:web6","metric":7}`, `{"interface":"a","destination":"claim:web","gateway":"10.0.0.9"}`),
	}
	shape := map[scheduler.Key][2]string{ // how ip names the first route of a sample
		"route/default": {"-4", "default"}, "route/six": {"-6", "fd01::/64"}, "route/hole": {"-4", "10.1.0.0/16"}, "route/ways": {"-4", "10.2.0.0/16"},
		"route/held": {"-4", "10.3.0.7"}, "route/shared": {"-4", "10.4.0.0/16"}, "route/shared6": {"-6", "fd04::/64"},
	}
	schedulertest.Conform(t, b.kind, schedulertest.Spec[*models.Route, kernel.LinkRef]{
		Samples: samples,
		Refused: map[scheduler.Key]*models.Route{"route/bad": {Interface: "a", Destination: "10.0.0.300/8"}},
		Restart: func(testing.TB) scheduler.Descriptor[*models.Route, kernel.LinkRef] {
			b.restart()
			return b.kind
		},
		Foreign: func(t testing.TB, k scheduler.Key, _ *models.Route) func() bool {
			family, dst := shape[k][0], shape[k][1]
			route := dst + " dev b proto 77"
			if family == "-6" {
				route += " metric 1024"
			}
			b.Do(t, b.Own(), "ip "+family+" route add "+route)
			t.Cleanup(func() { b.Do(t, b.Own(), "ip "+family+" route del "+route) })
			return func() bool { return b.Shows(t, "route add "+dst, "proto 77") }
		},
		Remove: func(t testing.TB, k scheduler.Key) {
			kind := ""
			if k == "route/hole" {
				kind = "blackhole "
			}
			b.Do(t, b.Own(), "ip "+shape[k][0]+" route del "+kind+shape[k][1])
		},
		Clone:     proto.CloneOf[*models.Route],
		Identical: func(x, y *models.Route) bool { return proto.Equal(x, y) },
	})
}
