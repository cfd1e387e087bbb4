package cni_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// masters are networks on an interface of the intent: eth1, a link that others have made, or br-lan, a bridge
// that has eth1 as a port. Those with debian need link types or options of Debian's kernels.
var masters = []struct {
	name, config string
	debian       bool
	// router is the link of the router that has the gateway's address.
	router string
}{
	{"bridge", `"master":"br-lan","pool":"10.8.0.0/24","macspoofchk":true`, false, "lan"},
	{"ippool", `"master":"br-lan","pool":"office","hairpinMode":true`, false, "lan"},
	{"macvlan", `"mode":"macvlan","master":"eth1","pool":"10.8.0.0/24"`, false, "lan"},
	{"ipvlan", `"mode":"ipvlan","master":"eth1","pool":"10.8.0.0/24"`, true, "lan"},
	{"vlan", `"mode":"vlan","master":"eth1","vlan":100,"pool":"10.8.0.0/24"`, true, "lan.100"},
	{"access port", `"master":"br-lan","vlan":100,"pool":"10.8.0.0/24"`, true, "lan.100"},
	{"trunk", `"master":"br-lan","vlanTrunk":[{"minID":100,"maxID":101}],"preserveDefaultVlan":true,"pool":"10.8.0.0/24"`, true, "lan"},
}

// TestKernel_Masters attaches two containers to each kind of network on an interface of the intent. They
// reach a router beyond the host as soon as ADD returns, and each other. Their interfaces go and come with
// that of the intent, which stays as it is when the last of them is detached.
func TestKernel_Masters(t *testing.T) {
	for _, c := range masters {
		if c.debian && !hosttest.OnDebian() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			want := lan(t, m, strings.Contains(c.config, "br-lan"), strings.Contains(c.config, "lan\",\"vlan"), strings.Contains(c.config, "office"))
			router := netlinktest.New(t)
			m.own.IP(t, "link set lan netns "+router.Path)
			if c.router == "lan.100" {
				router.IP(t, "link add link lan name lan.100 type vlan id 100")
			}
			router.IP(t, "link set lan up")
			router.IP(t, "link set "+c.router+" up")
			router.IP(t, "address add 10.8.0.1/24 dev "+c.router)
			config := `{"cniVersion":"1.1.0","name":"lan",` + c.config + `}`
			before := m.own.IP(t, "-br link show")
			var last spec.Result
			spaces := []*netlinktest.Namespace{withIPv6(t), withIPv6(t)}
			if c.name == "vlan" { // of which a parent has one interface
				if a := m.call("ADD", "first", spaces[0], config); a.Error != nil {
					t.Fatal(a.Error)
				}
				if a := m.call("ADD", "second", spaces[1], config); a.Error == nil || a.Error.Code != spec.TryLater || !strings.Contains(a.Error.Details, "VLAN 100 of interface/eth1 is the interface of lan/first/eth0") {
					t.Errorf("a second interface of one VLAN: %+v", a)
				}
				m.call("DEL", "first", nil, config)
				spaces = spaces[:1]
			}
			for i, at := range spaces {
				last = m.add(fmt.Sprint("c", i), at, config)
				at.Run(t, "busybox", "ping", "-c1", "-W5", "10.8.0.1")
				if last.IPs[0].Gateway != "10.8.0.1" {
					t.Errorf("%+v", last)
				}
				for _, i := range last.Interfaces {
					if i.Mac == "" || i.MTU != 1500 {
						t.Errorf("interface %+v", i)
					}
				}
			}
			if len(spaces) > 1 {
				spaces[1].Run(t, "busybox", "ping", "-c1", "-W5", "10.8.0.2")
			}
			if a := m.call("CHECK", "c0", spaces[0], config); a.Error != nil {
				t.Error(a.Error)
			}
			m.want(slices.DeleteFunc(slices.Clone(want), func(c scheduler.Change) bool { return c.Key == "interface/br-lan" || c.Key == "interface/eth1" })...)
			netlinktest.Eventually(t, "the container has no interface", func() bool { return !strings.Contains(spaces[0].IP(t, "link show"), "eth0") })
			m.want(want...)
			netlinktest.Eventually(t, "the container has its interface", func() bool {
				_, err := spaces[0].Try("busybox", "ping", "-c1", "-W1", "10.8.0.1")
				return err == nil
			})
			for i := range spaces {
				if a := m.call("DEL", fmt.Sprint("c", i), nil, config); a.Error != nil || len(a.Warnings) > 0 {
					t.Errorf("%+v", a)
				}
			}
			if after := m.own.IP(t, "-br link show"); names(after) != names(before) || spaces[0].IP(t, "link show") != "" && strings.Contains(spaces[0].IP(t, "link show"), "eth0") {
				t.Errorf("before:\n%s\nafter:\n%s\n%s", before, after, spaces[0].IP(t, "link show"))
			}
		})
	}
}

// names are those of the links of a brief list.
func names(list string) string {
	var all []string
	for line := range strings.Lines(list) {
		name, _, _ := strings.Cut(line, " ")
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// lan connects the host to a network by eth1, of which the other end is lan.
func lan(t *testing.T, m *machine, bridge, filtering, office bool) (want []scheduler.Change) {
	t.Helper()
	m.own.IP(t, "link add name eth1 type veth peer name lan")
	eth1 := &models.Interface{Enabled: proto.Bool(true), Link: &models.Interface_Existing{Existing: &models.Existing{}}}
	want = append(want, scheduler.Set("interface/eth1", eth1))
	if office {
		want = append(want, scheduler.Set("ippool/office", &models.IPPool{Network: "10.8.0.0/24", Gateway: "10.8.0.1"}))
	}
	if bridge {
		eth1.Master = "br-lan"
		br := &models.Bridge{VlanFiltering: filtering}
		if filtering {
			eth1.BridgePort = &models.BridgePort{Vlans: []*models.BridgeVlan{{Id: 1, Pvid: true, Untagged: true}, {Id: 100, To: 101}}}
		}
		want = append(want, scheduler.Set("interface/br-lan", &models.Interface{Link: &models.Interface_Bridge{Bridge: br}}))
	}
	m.want(want...)
	for _, c := range want {
		netlinktest.Eventually(t, string(c.Key)+" is configured", func() bool {
			st, err := m.sched.Get(t.Context(), c.Key)
			return err == nil && st.State == scheduler.Configured
		})
	}
	return want
}
