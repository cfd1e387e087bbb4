package iface_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// readBack reads all links after a restart and believes what was found.
func (b *bench) readBack(values map[string]string) {
	b.t.Helper()
	b.restart()
	for name, value := range values {
		b.want(name, value)
	}
	for k, f := range b.look() {
		b.self.put(k, f.Value, f.Meta)
	}
}

// aliases are the aliases and groups of the links of a namespace, by index.
func aliases(t *testing.T, ns *netlinktest.Namespace) string {
	t.Helper()
	var all []string
	for _, name := range ns.Names(t) {
		l := ns.Show(t, name)
		all = append(all, fmt.Sprintf("%v %s alias %v group %v", l["ifindex"], name, l["ifalias"], l["group"]))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// Marks that others have changed on links of every type are restored in place, also when
// that happened while the agent was away.
func TestChangedMarksAreRestored(t *testing.T) {
	values := map[string]string{
		"br":   `{"bridge":{}}`,
		"left": `{"veth":{"peer":"right"},"master":"br"}`, "right": `{"namespace":{"netns":"blue"},"host_name":"eth0","veth":{"peer":"left"}}`,
		"vx": `{"vxlan":{"vni":7,"local":"192.0.2.1","remote":"192.0.2.2"}}`,
		"mv": `{"namespace":{"netns":"blue"},"macvlan":{"parent":"br"}}`,
		"t":  `{"tap":{}}`, "tu": `{"tun":{}}`,
	}
	order := []string{"br", "left", "right", "vx", "mv", "t", "tu"}
	host := map[string]string{"right": "eth0"}
	for what, harm := range map[string][]string{
		"alias replaced":  {"alias", "blue pods"},
		"alias removed":   {"alias", ""},
		"group changed":   {"group", "7"},
		"of another key":  {"alias", "plumb:host7:interface/br"},
		"of another host": {"alias", "plumb:host8:interface/x"},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s restart %v", what, restart), func(t *testing.T) {
				b := newBench(t, "blue")
				for _, name := range order {
					b.want(name, values[name])
				}
				for _, name := range order {
					b.make(name, values[name])
				}
				before := aliases(t, b.own) + aliases(t, b.nets["blue"])
				var n *news
				if !restart {
					n = b.follow()
					b.look()
					n.take()
				}
				for _, name := range order {
					ns := b.own
					if name == "right" || name == "mv" {
						ns = b.nets["blue"]
					}
					link := name
					if host[name] != "" {
						link = host[name]
					}
					if name == "br" && what == "of another key" {
						continue
					}
					ns.Run(t, append([]string{"ip", "link", "set", "dev", link}, harm...)...)
					if !restart {
						n.reports(t, scheduler.Key("interface/"+name))
					}
				}
				if restart {
					b.readBack(values)
				} else {
					for k, f := range b.look() {
						b.self.put(k, f.Value, f.Meta)
					}
				}
				writes := b.writesOf(func() {
					for _, name := range order {
						if _, _, there := b.self.Get(scheduler.Key("interface/" + name)); !there {
							t.Errorf("%s is not found any more", name)
							continue
						}
						b.finish(name, values[name])
					}
				})
				if writes > uint64(len(order)) {
					t.Errorf("%d writes to restore %d marks", writes, len(order))
				}
				b.same()
				if after := aliases(t, b.own) + aliases(t, b.nets["blue"]); after != before {
					t.Errorf("before\n%s\nafter\n%s", before, after)
				}
			})
		}
	}
}

// Alias and group changed at once leave the MAC address to recognize the link by.
func TestBothMarksChanged(t *testing.T) {
	b := newBench(t)
	b.make("br", `{"bridge":{}}`)
	before := aliases(t, b.own)
	b.own.Run(t, "ip", "link", "set", "dev", "br", "alias", "blue pods", "group", "7")
	values := map[string]string{"br": `{"bridge":{}}`}
	b.readBack(values)
	b.finish("br", values["br"])
	b.same()
	if after := aliases(t, b.own); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// A link of others with a copy of our marks stays theirs, whether ours is there or not.
func TestCopiedMarks(t *testing.T) {
	const value = `{"bridge":{}}`
	for name, copied := range map[string]string{
		"alias": "link set dev theirs alias plumb:host7:interface/br", "alias and group": "link set dev theirs alias plumb:host7:interface/br group %d",
	} {
		for _, where := range []string{"", "blue"} {
			for _, gone := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s in %q gone %v", name, where, gone), func(t *testing.T) {
					b := newBench(t, "blue")
					b.ns(where).IP(t, "link add theirs type bridge")
					b.ns(where).IP(t, strings.Replace(copied, "%d", fmt.Sprint(kernel.Group(label)), 1))
					theirs := aliases(t, b.ns(where))
					b.make("br", value)
					ref := map[scheduler.Key]kernel.LinkRef{}
					for k, f := range b.look() {
						ref[k] = f.Meta
					}
					if gone {
						b.own.IP(t, "link del dev br")
					}
					for _, restart := range []bool{false, true} {
						if restart {
							b.restart()
							b.want("br", value)
						}
						for _, got := range []map[scheduler.Key]found{b.look("br"), b.look()} {
							switch f, there := got["interface/br"]; {
							case gone && there:
								t.Errorf("restart %v: the copy is taken for ours: %v", restart, f.Value)
							case !gone && (!there || f.Meta != ref["interface/br"] || f.Value.GetHostName() != "br"):
								t.Errorf("restart %v: found %v", restart, f.Value)
							}
						}
					}
					if gone {
						b.make("br", value)
					}
					b.same()
					for k, f := range b.look() {
						b.self.put(k, f.Value, f.Meta)
					}
					if err := b.delete("br"); err != nil {
						t.Error(err)
					}
					for _, restart := range []bool{false, true} { // nobody wants the key any more
						if restart {
							b.restart()
						}
						if got := b.look(); len(got) != 0 {
							t.Errorf("restart %v: found %v", restart, got)
						}
					}
					if now := aliases(t, b.ns(where)); now != theirs {
						t.Errorf("theirs was\n%s\nand is\n%s", theirs, now)
					}
				})
			}
		}
	}
}

// A link that others moved to another namespace while the agent was away is found there,
// whether its place is empty or taken by others, so that it can be replaced.
func TestMovedLinkIsFound(t *testing.T) {
	for name, x := range map[string]struct{ value, far string }{
		"dummy like": {value: `{"vxlan":{"vni":7,"local":"192.0.2.1","remote":"192.0.2.2"}}`},
		"tap":        {value: `{"tap":{}}`},
		"tun":        {value: `{"tun":{}}`},
		"veth":       {value: `{"veth":{"peer":"z"}}`, far: `{"namespace":{"netns":"blue"},"host_name":"eth0","veth":{"peer":"a"}}`},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s restart %v", name, restart), func(t *testing.T) {
				b := newBench(t, "blue", "red")
				values := map[string]string{"a": x.value}
				if x.far != "" {
					values["z"] = x.far
					b.want("z", x.far)
				}
				b.make("a", x.value)
				if x.far != "" {
					b.make("z", x.far)
				}
				b.follow()
				b.look() // the ledger learns how both ends look
				if _, err := b.Open(b.nets["red"].Path); err != nil {
					t.Fatal(err)
				}
				b.own.IP(t, "link set dev a netns "+b.nets["red"].Path)
				if restart {
					b.readBack(values)
				}
				got := b.look()
				f, there := got["interface/a"]
				if !there || f.Meta.NS != kernel.NS(b.nets["red"].Inode) {
					t.Fatalf("found %v", got)
				}
				v, _ := b.self.Wanted("interface/a")
				if verdict := b.kind.Compare("interface/a", f.Value, v); verdict.Change != scheduler.Replace {
					t.Errorf("it is not replaced: %v", verdict)
				}
				for _, n := range []string{"a", "z"} { // as the scheduler would replace it
					k := scheduler.Key("interface/" + n)
					if f, there := got[k]; there {
						b.self.put(k, f.Value, f.Meta)
						if err := b.kind.Delete(t.Context(), k, f.Value, f.Meta); err != nil {
							t.Fatal(err)
						}
						delete(b.self.in, k)
					}
				}
				if left := b.nets["red"].Names(t); len(left) != 0 {
					t.Errorf("left %v", left)
				}
				b.make("a", x.value)
				if x.far != "" {
					b.make("z", x.far)
				}
				b.same()
			})
		}
	}
}
