package iface_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/iface"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
)

// sealed is a kernel whose addresses cannot be read.
type sealed struct{ kernel.Kernel }

func (sealed) Addresses(kernel.NS, int) ([]kernel.Address, error) {
	return nil, errors.New("not readable")
}

// Each case has a link eth0 of others with addresses and a route, and a bond and a vrf of others.
func TestEnslavingNamesObjectsOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		values map[string]string
		made   string // this interface is in place
		sealed bool
		want   []string // what the notes contain, one each
	}{
		"a bridge": {
			values: map[string]string{"eth0": `{"existing":{},"master":"br"}`, "br": `{"bridge":{}}`},
			want: []string{"address 192.0.2.5/24 of eth0 is not managed by Plumb and stops working when eth0 becomes a port of bridge br;",
				"address 2001:db8::5/64 of eth0", "route 198.51.100.0/24 via 192.0.2.1 of eth0"},
		},
		"a bond of others": {
			values: map[string]string{"eth0": `{"existing":{},"master":"b"}`, "b": `{"host_name":"theirbond","existing":{}}`},
			want: []string{"becomes a member of bond theirbond; configure it on theirbond instead",
				"2001:db8::5/64 of eth0 is not managed by Plumb and is removed", "route 198.51.100.0/24 via 192.0.2.1"},
		},
		"a vrf of others": {
			values: map[string]string{"eth0": `{"existing":{},"master":"v"}`, "v": `{"host_name":"theirvrf","existing":{}}`},
			want:   []string{"moves with its network to table 20", "keep_addr_on_down", "is removed when eth0 joins vrf theirvrf; add it to table 20"},
		},
		"no master":                {values: map[string]string{"eth0": `{"existing":{}}`}},
		"no such link":             {values: map[string]string{"eth7": `{"existing":{},"master":"br"}`, "br": `{"bridge":{}}`}},
		"no such namespace":        {values: map[string]string{"eth0": `{"namespace":{"netns":"none"},"existing":{},"master":"br"}`, "br": `{"bridge":{}}`}},
		"a link of others by name": {values: map[string]string{"eth0": `{"dummy":{},"master":"br"}`, "br": `{"bridge":{}}`}},
		"its own addresses": {
			made:   `{"bridge":{},"addresses":["10.1.0.1/24"]}`,
			values: map[string]string{"own": `{"bridge":{},"master":"v"}`, "v": `{"host_name":"theirvrf","existing":{}}`},
		},
		"addresses of others on its own link": {
			made:   `{"bridge":{}}`,
			values: map[string]string{"own": `{"bridge":{},"master":"v"}`, "v": `{"host_name":"theirvrf","existing":{}}`},
			want:   []string{"address 10.1.0.1/24 of own"},
		},
		"not readable": {
			sealed: true,
			values: map[string]string{"eth0": `{"existing":{},"master":"br"}`, "br": `{"bridge":{}}`},
			want:   []string{"interface/eth0: it is not known what stops working when the link joins br: read the addresses of eth0: not readable"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBenchOn(t, hosttest.Memory())
			for _, command := range []string{
				"link add eth0 type bridge", "link set eth0 up", "addr add 192.0.2.5/24 dev eth0", "addr add 2001:db8::5/64 dev eth0",
				"route add 198.51.100.0/24 via 192.0.2.1", "link add theirbond type bond", "link add theirvrf type vrf table 20",
			} {
				b.Do(t, b.Own(), "ip "+command)
			}
			if c.made != "" {
				b.make("own", c.made)
				b.Do(t, b.Own(), "ip addr add 10.1.0.1/24 dev own")
			}
			var k kernel.Kernel = b.Kernel
			if c.sealed {
				k = sealed{k}
			}
			keys, values := []string{}, map[string]*models.Interface{}
			for name, text := range c.values {
				key := models.InterfaceKey(name)
				keys, values[key] = append(keys, key), b.value(text)
			}
			slices.Sort(keys)
			deps := iface.Deps{Kernel: k, Owner: kernel.NewOwner(label, "boot", b.ledger, nil), Places: b, Interfaces: b.self}
			got := iface.Enslaving(deps)(context.Background(), keys, func(key string) *models.Interface { return values[key] })
			if !slices.EqualFunc(got, c.want, strings.Contains) {
				t.Errorf("notes:\n%s\nwant those with:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}
