package cni_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/scheduler"
)

// operator says more, or less, of what an operator wants.
func (n *node) operator(changes ...scheduler.Change) {
	n.sched.Submit(scheduler.Txn{Source: "operator", Want: changes})
	synctest.Wait()
}

// TestOperatorPool: what an operator's pool gave is wanted again after a start,
// before anybody knows the pool again.
func TestOperatorPool(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		config := `{"cniVersion":"1.1.0","name":"blue","pool":"office"}`
		if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", config); a.Error == nil || !strings.Contains(a.Error.Details, "ippool/office") {
			t.Errorf("without the pool: %v", a.Error)
		}
		office := scheduler.Set("ippool/office", &models.IPPool{Network: "10.9.0.0/24", Gateway: "10.9.0.1"})
		n.operator(office)
		if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", config); a.Error != nil || a.Result.IPs[0].Gateway != "10.9.0.1" {
			t.Fatal(a)
		}
		before := n.show()
		n.restart()
		n.operator(office)
		if n.show() != before {
			t.Errorf("after a start\n%s\nbefore\n%s", n.show(), before)
		}
		if a := n.call(t.Context(), "ADD", "c2", "/run/netns/7", config); a.Error != nil {
			t.Error(a.Error)
		}
	})
}

// TestMasquerade: a network has one table, from its first container to its last,
// also over a start. Whoever wants the network otherwise is refused.
func TestMasquerade(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		const table = "nftables/cni:blue"
		masked := strings.Replace(blue, "{", `{"masquerade":true,`, 1)
		has := func(want bool) {
			t.Helper()
			if strings.Contains(n.show(), table) != want {
				t.Errorf("there is %s: %v\n%s", table, !want, n.show())
			}
		}
		for _, container := range []string{"c1", "c2"} {
			if a := n.call(t.Context(), "ADD", container, "/run/netns/7", masked); a.Error != nil {
				t.Fatal(a.Error)
			}
		}
		has(true)
		if a := n.call(t.Context(), "ADD", "c3", "/run/netns/7", blue); a.Error == nil || !strings.Contains(a.Error.Details, "with another mode, pool, bridge, master, mtu, masquerade or forward") {
			t.Errorf("without masquerade: %+v", a)
		}
		n.restart()
		has(true)
		n.call(t.Context(), "DEL", "c1", "", masked)
		has(true)
		n.call(t.Context(), "DEL", "c2", "", masked)
		has(false)
		n.kernel.broken = table
		if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", masked); a.Error == nil || !strings.Contains(a.Error.Details, table) {
			t.Errorf("the table is somebody else's: %+v", a)
		}
		if left := n.show(); left != "" {
			t.Errorf("left\n%s", left)
		}
	})
}

// TestUnusableMaster checks that ADD and STATUS refuse a network without a usable master, and name the master.
func TestUnusableMaster(t *testing.T) {
	iface := func(key, text string) scheduler.Change {
		v, err := models.DecodeKind(models.KindInterface, []byte(text))
		must(t, err)
		return scheduler.Set(scheduler.Key(key), v)
	}
	in(t, func(t *testing.T, n *node) {
		config := func(keys string) string { return `{"cniVersion":"1.1.0","name":"lan","ipam":{},` + keys + `}` }
		for _, c := range []struct{ keys, want string }{
			{`"master":"eth1"`, "interface/eth1; for a link that the host has configured write"},
			{`"mode":"macvlan","master":"eth1"`, "interface/eth1; for a link that the host has configured write"},
			{`"master":"elsewhere"`, "interface/elsewhere is in netns blue"},
			{`"master":"end"`, "interface/end is a veth and no bridge"},
		} {
			n.operator(
				iface("interface/elsewhere", `{"namespace":{"netns":"blue"},"bridge":{}}`),
				iface("interface/end", `{"veth":{"peer":"other"}}`), iface("interface/other", `{"veth":{"peer":"end"}}`))
			if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", config(c.keys)); a.Error == nil || !strings.Contains(a.Error.Details, c.want) {
				t.Errorf("ADD with %s: %v, want %s", c.keys, a.Error, c.want)
			}
			if a := n.call(t.Context(), "STATUS", "", "", config(c.keys)); a.Error == nil || !strings.Contains(a.Error.Error(), c.want) {
				t.Errorf("STATUS with %s: %v, want %s", c.keys, a.Error, c.want)
			}
		}
		n.operator(iface("interface/eth1", `{"existing":{}}`))
		if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", config(`"mode":"vlan","master":"eth1","vlan":7`)); a.Error != nil {
			t.Fatal(a.Error)
		}
		second := strings.Replace(config(`"mode":"vlan","master":"eth1","vlan":7`), "lan", "red", 1)
		want := "VLAN 7 of interface/eth1 belongs to lan/c1/eth0"
		if a := n.call(t.Context(), "ADD", "c2", "/run/netns/8", second); a.Error == nil || a.Error.Code != spec.TryLater || !strings.Contains(a.Error.Details, want) {
			t.Errorf("a second container with the VLAN: %v, want %s", a.Error, want)
		}
		n.restart()
		if a := n.call(t.Context(), "CHECK", "c1", "/run/netns/7", config(`"mode":"vlan","master":"eth1","vlan":7`)); a.Error != nil {
			t.Errorf("CHECK after a start: %v", a.Error)
		}
	})
}
