package iface_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/iface"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestConform holds the kind to the contract of descriptors, on each kernel,
// with links of every type that it has.
func TestConform(t *testing.T) {
	conformAll(t, hosttest.OnEachKernel, map[string][][]string{
		"bridge": {
			{"br", `{"bridge":{},"addresses":["10.0.0.1/24"]}`, `{"bridge":{"stp":true,"ageing_time":10},"enabled":false}`, `{"bridge":{},"host_name":"lan0"}`},
			{"br2", `{"bridge":{"no_multicast_snooping":true},"mtu":1400,"features":{"tx-tcp-segmentation":false}}`, `{"bridge":{},"mtu":1300,"mac_address":"02:00:00:00:00:07","alternative_names":["lan","a-long-name-of-a-bridge"]}`},
		},
		"members": {
			{"br", `{"bridge":{}}`},
			{"tap0", `{"tap":{},"master":"br"}`, `{"tap":{"owner":4242,"vnet_hdr":true},"mtu":1280}`, `{"tun":{}}`},
		},
		"other places": {
			{"br", `{"bridge":{}}`},
			{"mv", `{"namespace":{"netns":"blue"},"macvlan":{"parent":"br"},"host_name":"eth0"}`, `{"macvlan":{"parent":"br","mode":"private"}}`},
			{"vx", `{"vxlan":{"vni":7,"local":"192.0.2.1","remote":"192.0.2.2"}}`, `{"vxlan":{"vni":8,"local":"192.0.2.1","remote":"192.0.2.2"}}`},
		},
		"cables": {
			{"left", `{"veth":{"peer":"right"}}`, `{"veth":{"peer":"right"},"mtu":1400,"host_name":"eth7"}`},
			{"right", `{"namespace":{"netns":"blue"},"host_name":"eth0","veth":{"peer":"left"}}`, `{"namespace":{"netns":"blue"},"host_name":"eth0","veth":{"peer":"left"},"enabled":false}`},
		},
	})
}

// TestConformOfDebian does so with links that not every kernel has.
func TestConformOfDebian(t *testing.T) {
	conformAll(t, hosttest.OnEachDebian, map[string][][]string{
		"bonds": {
			{"b0", `{"bond":{"mode":"802.3ad"}}`, `{"bond":{"mode":"802.3ad","lacp_rate":"fast","miimon":50,"updelay":100},"mtu":1400}`, `{"bond":{"mode":"active-backup","arp_interval":500,"arp_targets":["10.0.0.1"]}}`},
			{"p0", `{"tap":{},"master":"b0"}`, `{"tap":{},"enabled":false}`},
			{"p1", `{"dummy":{},"master":"b0"}`, `{"dummy":{},"master":"b0","alternative_names":["uplink"]}`},
		},
		"vlans and vrfs": {
			{"br", `{"bridge":{}}`},
			{"v7", `{"vlan":{"parent":"br","id":7}}`, `{"vlan":{"parent":"br","id":8,"protocol":"802.1ad"},"mtu":1400}`},
			{"far", `{"namespace":{"netns":"blue"},"vlan":{"parent":"br","id":9},"host_name":"eth0"}`, `{"namespace":{"netns":"blue"},"vlan":{"parent":"br","id":9},"host_name":"eth1"}`},
			{"red", `{"vrf":{"table":7}}`},
			{"in", `{"dummy":{},"master":"red"}`, `{"dummy":{}}`, `{"ifb":{}}`},
		},
		"tunnels": {
			{"g", `{"gre":{"local":"192.0.2.1","remote":"192.0.2.2"}}`, `{"gre":{"local":"192.0.2.1","remote":"192.0.2.2","key":7,"checksum":true,"ttl":9}}`, `{"gre":{"local":"fd00::1","remote":"fd00::2","key":7}}`, `{"gre":{"external":true}}`},
			{"gt", `{"gretap":{"local":"192.0.2.1","remote":"192.0.2.2"}}`, `{"gretap":{"local":"192.0.2.1","remote":"192.0.2.3"},"mac_address":"02:00:00:00:00:07"}`, `{"gretap":{"local":"fd00::1","remote":"fd00::2"}}`},
			{"i", `{"ipip":{"local":"192.0.2.1","remote":"192.0.2.2"}}`, `{"ipip":{"local":"192.0.2.1","remote":"192.0.2.3","no_pmtu_discovery":true}}`, `{"ipip":{"local":"fd00::1","remote":"fd00::2"}}`, `{"ipip":{"local":"fd00::1","remote":"fd00::2","encap_limit":4}}`},
			{"s", `{"sit":{"local":"192.0.2.1","remote":"192.0.2.2"}}`, `{"sit":{"local":"192.0.2.1"}}`},
			{"ge", `{"geneve":{"vni":7,"remote":"192.0.2.1"}}`, `{"geneve":{"vni":7,"remote":"192.0.2.2","ttl":9}}`, `{"geneve":{"vni":7,"remote":"fd00::1"}}`, `{"geneve":{"external":true,"port":6082}}`},
		},
		"wireguard": {
			{"w", `{"wireguard":{"private_key_file":"/keys/a"}}`,
				`{"wireguard":{"private_key_file":"/keys/b","listen_port":51820,"fwmark":7}}`,
				`{"wireguard":{"private_key_file":"/keys/b","listen_port":51820,"peers":[{"public_key":"xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=","allowed_ips":["10.0.0.0/24","fd00::/64"],"endpoint":"192.0.2.1:51820","persistent_keepalive":25,"preshared_key_file":"/keys/c"}]}}`},
		},
	})
}

func conformAll(t *testing.T, each func(*testing.T, func(*testing.T, *hosttest.Host)), all map[string][][]string) {
	for name, samples := range all {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, h *hosttest.Host) { conform(t, newBenchOn(t, h, "blue"), samples) })
		})
	}
}

func conform(t *testing.T, b *bench, samples [][]string) {
	self := &iface.Self{}
	restart := func(testing.TB) scheduler.Descriptor[*models.Interface, kernel.LinkRef] {
		return iface.New(iface.Deps{Kernel: b.Kernel, Owner: kernel.NewOwner(label, "boot", b.ledger, nil),
			Names: &kernel.Names{}, Places: b, Interfaces: self, KeyFile: testKey})
	}
	spec := schedulertest.Spec[*models.Interface, kernel.LinkRef]{
		Kinds:   []scheduler.Key{"address/"},
		Bind:    func(v *schedulertest.View[*models.Interface, kernel.LinkRef]) { self.Bind(v) },
		Restart: restart,
		Refused: map[scheduler.Key]*models.Interface{"interface/none": {}, "interface/tiny": b.decoded(`{"bridge":{},"mtu":7}`)},
		Foreign: b.stranger,
		Remove: func(t testing.TB, k scheduler.Key) {
			v, _ := self.Wanted(k)
			b.Do(t, b.in(v), "ip link del dev "+v.EffectiveHostName(string(k)))
		},
		Clone:     proto.CloneOf[*models.Interface],
		Identical: func(x, y *models.Interface) bool { return proto.Equal(x, y) },
		Normalize: asAsked,
	}
	for _, s := range samples {
		sample := schedulertest.Sample[*models.Interface]{Key: scheduler.Key(models.InterfaceKey(s[0]))}
		for _, text := range s[1:] {
			sample.Values = append(sample.Values, b.decoded(text))
		}
		spec.Samples = append(spec.Samples, sample)
	}
	schedulertest.Conform(t, restart(t), spec)
}

// in is the namespace of a value.
func (b *bench) in(v *models.Interface) kernel.NS {
	if name := v.GetNamespace().GetNetns(); name != "" {
		return kernel.NS(b.nets[name].Inode)
	}
	return b.Own()
}

// stranger is a link of somebody else under the name of a value.
func (b *bench) stranger(t testing.TB, k scheduler.Key, v *models.Interface) func() bool {
	ns, name := b.in(v), v.EffectiveHostName(string(k))
	remove := func() {
		if l, err := b.Link(ns, name); err == nil {
			b.Do(t, ns, "ip link del dev "+l.Name)
		}
	}
	remove() // the end of a cable may be there
	b.Do(t, ns, "ip link add name "+name+" type bridge")
	t.Cleanup(remove)
	made, err := b.Link(ns, name)
	return func() bool {
		l, now := b.Link(ns, name)
		return errors.Join(err, now) == nil && l.Index == made.Index && l.Alias == ""
	}
}

// asAsked is what was found without what was left to the kernel.
func asAsked(_ scheduler.Key, found, asked *models.Interface) *models.Interface {
	v := proto.CloneOf(found)
	if asked.GetMacAddress() == "" {
		v.MacAddress = ""
	}
	if asked.GetMtu() == 0 {
		v.Mtu = 0
	}
	if w := v.GetWireguard(); w != nil && asked.GetWireguard().GetListenPort() == 0 {
		w.ListenPort = 0
	}
	if b := v.GetBridge(); b != nil && asked.GetBridge().AgeingTime == nil {
		b.AgeingTime = nil
	}
	return v
}

// decoded is a value that need not be valid.
func (b *bench) decoded(text string) *models.Interface {
	b.t.Helper()
	v := &models.Interface{}
	if err := protojson.Unmarshal([]byte(text), v); err != nil {
		b.t.Fatal(err)
	}
	return v
}
