package cni_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/scheduler"
)

// objects are what is on the host, without the ledgers.
func (n *node) objects() string {
	var lines []string
	for line := range strings.Lines(n.show()) {
		if !strings.HasPrefix(line, "attachment/") && !strings.HasPrefix(line, "ip") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// damages are what may become of the records of c1 and c2 while c3's stays whole.
var damages = map[string]func(n *node){
	"a record is missing": func(n *node) { n.disk.Remove("attachment/blue/c1/eth0", "attachment/blue/c2/eth0") },
	"later versions": func(n *node) {
		for _, c := range []string{"c1", "c2"} {
			e, _ := n.disk.Get("attachment/blue/" + c + "/eth0")
			e.Value = []byte(strings.Replace(string(e.Value), `"version":1`, `"version":2`, 1))
			_ = n.disk.Add(e)
		}
	},
	"the last lines are missing": func(n *node) {
		for _, c := range []string{"c1", "c2"} {
			e, _ := n.disk.Get("attachment/blue/" + c + "/eth0")
			e.Value = []byte(strings.Replace(string(e.Value), `"added"`, map[string]string{"c1": `"adding"`, "c2": `"removing"`}[c], 1))
			_ = n.disk.Add(e)
		}
	},
	"nothing but this release cannot use it": func(n *node) {
		for _, c := range []string{"c1", "c2"} {
			e, _ := n.disk.Get("attachment/blue/" + c + "/eth0")
			e.Value = []byte(strings.ReplaceAll(string(e.Value), `10.62.0.0/29`, `somewhere`))
			_ = n.disk.Add(e)
		}
	},
	"all is missing": func(n *node) { n.disk = &fullDisk{} },
}

// TestForgotten: what is attached without a record that can be believed stays as it is,
// over starts, and nobody is given its address; the network stays for it. A DEL removes
// it, in the end with its network.
func TestForgotten(t *testing.T) {
	for name, damage := range damages {
		for _, addresses := range []bool{true, false} {
			t.Run(fmt.Sprint(name, addresses), func(t *testing.T) {
				in(t, func(t *testing.T, n *node) {
					added(t, n, "c1", "c2", "c3")
					before := n.objects()
					n.stop()
					damage(n)
					if !addresses { // only c3's are known, by its result
						n.given = &kernel.MemLedger{}
					}
					n.host.forgot = "records are damaged"
					for range 3 {
						n.start()
						time.Sleep(10 * time.Minute)
						n.Sweep(t.Context())
						if got := n.objects(); got != before {
							t.Fatalf("now there is\n%s\nwant\n%s", got, before)
						}
						list, err := n.Forgotten(t.Context())
						if want := map[bool]int{false: 2, true: 3}[name == "all is missing"]; err != nil || len(list) != want {
							t.Fatalf("forgotten: %v, %v", list, err)
						}
						n.stop()
					}
					n.start()
					if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", blue); codeOf(a) != spec.Exists {
						t.Errorf("ADD of what is there: %v", a)
					}
					if a := n.call(t.Context(), "CHECK", "c1", "/run/netns/7", blue); codeOf(a) != spec.Broken || !strings.Contains(a.Error.Details, "agentctl cni adopt") {
						t.Errorf("CHECK: %v", a)
					}
					if addresses {
						if a := n.call(t.Context(), "ADD", "c4", "/run/netns/7", blue); a.Error != nil || a.Result.IPs[0].Address != "10.62.0.5/29" {
							t.Errorf("ADD of another: %v", a)
						}
						n.call(t.Context(), "DEL", "c4", "", blue)
					}
					for _, c := range []string{"c3", "c1", "c1", "c2"} {
						if c == "c2" && !strings.Contains(n.show(), "interface/cni:blue\n") {
							t.Errorf("the bridge went before the last\n%s", n.show())
						}
						if a := n.call(t.Context(), "DEL", c, "", blue); a.Error != nil || len(a.Warnings) > 0 {
							t.Errorf("DEL %s: %v", c, a)
						}
					}
					if n.show() != "" {
						t.Errorf("left\n%s", n.show())
					}
				})
			})
		}
	}
}

// TestForgottenEnds: what nobody has a record of goes with its namespace, addresses too.
func TestForgottenEnds(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		added(t, n, "c1")
		n.stop()
		n.disk = &fullDisk{}
		n.host.forgot = "the records are missing"
		n.start()
		n.kernel.mu.Lock()
		for k := range n.kernel.objects {
			if strings.HasPrefix(string(k), "interface/cni:blue:") || strings.HasPrefix(string(k), "route/cni:blue:") {
				delete(n.kernel.objects, k)
			}
		}
		n.kernel.mu.Unlock()
		n.sched.Submit(scheduler.Txn{Source: "operator", Look: []scheduler.Key{"interface/", "route/"}})
		synctest.Wait()
		n.Sweep(t.Context())
		if n.show() != "" {
			t.Errorf("left\n%s", n.show())
		}
	})
}

// TestForgetAtStart: an operator names an attachment before the agent has read what is there.
func TestForgetAtStart(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		added(t, n, "c1")
		n.stop()
		n.disk = &fullDisk{}
		n.host.forgot = "the records are missing"
		n.kernel.slow.Store(true)
		n.start()
		if f, left, err := n.Forget(t.Context(), "c1"); err != nil || left != "" || len(f.Keys) < 4 {
			t.Errorf("%+v, %s, %v", f, left, err)
		}
		if list, _ := n.Forgotten(t.Context()); len(list) > 0 {
			t.Errorf("%v", list)
		}
	})
}

// TestForget: an operator names it by container, by digest or by all that is known of it.
func TestForget(t *testing.T) {
	for _, id := range []string{"c1", "7a9ae503637bb214", "blue/c1/eth0", "blue/7a9ae503637bb214/?"} {
		in(t, func(t *testing.T, n *node) {
			added(t, n, "c1", "c2")
			n.stop()
			n.disk = &fullDisk{}
			n.host.forgot = "the records are missing"
			n.start()
			for _, wrong := range []string{"c9", "green/c1/eth0", ""} {
				if _, _, err := n.Forget(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "blue/") {
					t.Errorf("%q: %v", wrong, err)
				}
			}
			f, left, err := n.Forget(t.Context(), id)
			if err != nil || left != "" || f.Digest != "7a9ae503637bb214" {
				t.Errorf("%s: %+v, %s, %v", id, f, left, err)
			}
			list, _ := n.Forgotten(t.Context())
			if len(list) != 1 || strings.Contains(n.show(), "7a9ae503637bb214") {
				t.Errorf("%s: %v\n%s", id, list, n.show())
			}
			_, _, err = n.Forget(t.Context(), id)
			if err == nil {
				t.Errorf("%s: forgotten twice", id)
			}
		})
	}
}
