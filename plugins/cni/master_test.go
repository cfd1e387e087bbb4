package cni_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// masters are networks on an interface of the intent: eth1, which the host has configured, or br-lan, a bridge that
// has eth1 as a port.
var masters = []struct {
	name, config string
	lan          lan
}{
	{"bridge", `"master":"br-lan","pool":"10.8.0.0/24","macspoofchk":true`, lan{bridge: true}},
	{"ippool", `"master":"br-lan","pool":"office","hairpinMode":true`, lan{bridge: true, ippool: true}},
	{"macvlan", `"mode":"macvlan","master":"eth1","pool":"10.8.0.0/24"`, lan{}},
	{"ipvlan", `"mode":"ipvlan","master":"eth1","pool":"10.8.0.0/24"`, lan{debian: true}},
	{"vlan", `"mode":"vlan","master":"eth1","vlan":100,"pool":"10.8.0.0/24"`, lan{debian: true, tagged: true, single: true}},
	{"access port", `"master":"br-lan","vlan":100,"pool":"10.8.0.0/24"`, lan{debian: true, bridge: true, filtering: true, tagged: true}},
	{"trunk", `"master":"br-lan","vlanTrunk":[{"minID":100,"maxID":101}],"preserveDefaultVlan":true,"pool":"10.8.0.0/24"`,
		lan{debian: true, bridge: true, filtering: true}},
}

// lan describes the network beyond the host. debian means that it needs a kernel of Debian, tagged that the router is in
// VLAN 100, and single that only one container can be attached.
type lan struct{ bridge, filtering, ippool, debian, tagged, single bool }

// TestKernel_Masters attaches containers to each kind of network on an interface of the intent. They reach a router
// beyond the host as soon as ADD returns, and each other. Their interfaces are removed and created with that of the
// intent, which stays as it is when the last of them is detached.
func TestKernel_Masters(t *testing.T) {
	for _, c := range masters {
		if c.lan.debian && !hosttest.OnDebian() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.own.IP(t, "link add name eth1 type veth peer name lan")
			intent := c.lan.intent()
			m.want(intent...)
			for _, change := range intent {
				netlinktest.Eventually(t, string(change.Key)+" is configured", func() bool {
					st, err := m.sched.Get(t.Context(), change.Key)
					return err == nil && st.State == scheduler.Configured
				})
			}
			c.lan.router(t, m)
			config := `{"cniVersion":"1.1.0","name":"lan",` + c.config + `}`
			before := m.own.Names(t)
			spaces := []*netlinktest.Namespace{withIPv6(t)}
			if !c.lan.single {
				spaces = append(spaces, withIPv6(t))
			}
			for i, at := range spaces {
				r := m.add(fmt.Sprint("c", i), at, config)
				at.Run(t, "busybox", "ping", "-c1", "-W5", "10.8.0.1")
				if r.IPs[0].Gateway != "10.8.0.1" {
					t.Errorf("%+v", r)
				}
				for _, i := range r.Interfaces {
					if i.Mac == "" || i.MTU != 1500 {
						t.Errorf("interface %+v", i)
					}
				}
			}
			if !c.lan.single {
				spaces[1].Run(t, "busybox", "ping", "-c1", "-W5", "10.8.0.2")
			}
			if a := m.call("CHECK", "c0", spaces[0], config); a.Error != nil {
				t.Error(a.Error)
			}
			attached := func() bool { return slices.Contains(spaces[0].Names(t), "eth0") }
			m.want(slices.DeleteFunc(slices.Clone(intent), func(c scheduler.Change) bool {
				return strings.HasPrefix(string(c.Key), models.KindInterface+"/")
			})...)
			netlinktest.Eventually(t, "the container has no interface", func() bool { return !attached() })
			m.want(intent...)
			netlinktest.Eventually(t, "the container reaches the router again", func() bool {
				_, err := spaces[0].Try("busybox", "ping", "-c1", "-W1", "10.8.0.1")
				return err == nil
			})
			for i := range spaces {
				if a := m.call("DEL", fmt.Sprint("c", i), nil, config); a.Error != nil || len(a.Warnings) > 0 {
					t.Errorf("%+v", a)
				}
			}
			if attached() {
				t.Error("the container has its interface after DEL")
			}
			if after := m.own.Names(t); !slices.Equal(slices.Sorted(slices.Values(before)), slices.Sorted(slices.Values(after))) {
				t.Errorf("links before %q, after %q", before, after)
			}
		})
	}
}

// intent returns the intent of the host for the network.
func (l lan) intent() []scheduler.Change {
	eth1 := &models.Interface{Enabled: proto.Bool(true), Link: &models.Interface_Existing{Existing: &models.Existing{}}}
	list := []scheduler.Change{scheduler.Set("interface/eth1", eth1)}
	if l.ippool {
		list = append(list, scheduler.Set("ippool/office", &models.IPPool{Network: "10.8.0.0/24", Gateway: "10.8.0.1"}))
	}
	if l.bridge {
		eth1.Master = "br-lan"
		list = append(list, scheduler.Set("interface/br-lan", &models.Interface{
			Link: &models.Interface_Bridge{Bridge: &models.Bridge{VlanFiltering: l.filtering}}}))
	}
	if l.filtering {
		eth1.BridgePort = &models.BridgePort{Vlans: []*models.BridgeVlan{{Id: 1, Pvid: true, Untagged: true}, {Id: 100, To: 101}}}
	}
	return list
}

// router moves the other end of eth1 to another namespace and gives it the gateway's address.
func (l lan) router(t *testing.T, m *machine) {
	t.Helper()
	router, link := netlinktest.New(t), "lan"
	m.own.IP(t, "link set lan netns "+router.Path)
	router.IP(t, "link set lan up")
	if l.tagged {
		link = "lan.100"
		router.IP(t, "link add link lan name lan.100 type vlan id 100")
		router.IP(t, "link set lan.100 up")
	}
	router.IP(t, "address add 10.8.0.1/24 dev "+link)
}
