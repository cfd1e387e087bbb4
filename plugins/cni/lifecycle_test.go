package cni_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/scheduler"
)

const inside = "interface/cni:blue:7a9ae503637bb214" // of c1

// waiting begins an ADD of a container whose namespace the engine does not see yet.
func waiting(t *testing.T, n *node, container string) <-chan wire.Answer {
	t.Helper()
	answer := make(chan wire.Answer, 1)
	go func() { answer <- n.call(t.Context(), "ADD", container, "/run/netns/8", blue) }()
	synctest.Wait()
	if len(n.Pending()) != 1 {
		t.Fatalf("%v wait", n.Pending())
	}
	return answer
}

func added(t *testing.T, n *node, containers ...string) {
	t.Helper()
	for _, c := range containers {
		if a := n.call(t.Context(), "ADD", c, "/run/netns/7", blue); a.Error != nil {
			t.Fatal(a.Error)
		}
	}
}

// TestHostNamespace: the agent looks itself; nothing is begun in the host's
// namespace, in one that it does not see, or sees as another.
func TestHostNamespace(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		for path, want := range map[string]string{"/run/netns/1": "of the host", "/run/nowhere": "no network namespace", "/run/netns/7": "another network namespace"} {
			c, wrong := cni.Parse(wire.Request{Protocol: 1, Config: []byte(blue), Inode: 4711,
				Args: spec.Args{Command: "ADD", ContainerID: "c1", IfName: "eth0", Netns: path}})
			if wrong != nil {
				t.Fatal(wrong)
			}
			if a := n.Serve(t.Context(), c); a.Error == nil || a.Error.Code != spec.BadNamespace || !strings.Contains(a.Error.Msg, want) {
				t.Errorf("%s: %v", path, a.Error)
			}
		}
		if n.show() != "" {
			t.Errorf("left\n%s", n.show())
		}
	})
}

// TestAnotherNamespace: whose path is another's after a restart, or after a
// boot, is removed; whose path is empty is not.
func TestAnotherNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *fakeHost)
		stays  bool
	}{
		"the same": {func(*fakeHost) {}, true},
		"none":     {func(h *fakeHost) { h.at["/run/netns/7"] = 0 }, true},
		"another":  {func(h *fakeHost) { h.at["/run/netns/7"] = 9 }, false},
		"a boot":   {func(h *fakeHost) { h.boot = "two" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, n *node) {
				added(t, n, "c1")
				n.stop()
				c.change(n.host)
				n.start()
				if stays := strings.Contains(n.show(), inside); stays != c.stays {
					t.Errorf("it stays: %v\n%s", stays, n.show())
				}
				if !c.stays && n.show() != "" {
					t.Errorf("left\n%s", n.show())
				}
			})
		})
	}
}

// TestMeantByInode: what is wanted of the engine names the namespace by its
// inode as well, also after a restart.
func TestMeantByInode(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		added(t, n, "c1")
		for range 2 {
			st, err := n.sched.Get(t.Context(), inside)
			if err != nil || !strings.Contains(fmt.Sprint(st.Desired), "inode:7") {
				t.Errorf("%v, %v", st.Desired, err)
			}
			n.restart()
		}
	})
}

// TestGoneWhileWaiting: an ADD of which nobody needs the outcome fails at once;
// one of which that cannot be told goes on.
func TestGoneWhileWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		before, change func(h *fakeHost)
		gone           bool
	}{
		"namespace":       {func(*fakeHost) {}, func(h *fakeHost) { h.at["/run/netns/8"] = 0 }, true},
		"another has it":  {func(*fakeHost) {}, func(h *fakeHost) { h.at["/run/netns/8"] = 9 }, true},
		"container":       {func(h *fakeHost) { h.running["c1"] = true }, func(h *fakeHost) { delete(h.running, "c1") }, true},
		"not yet running": {func(*fakeHost) {}, func(*fakeHost) {}, false},
		"not sure": {func(h *fakeHost) { h.running["c1"] = true }, func(h *fakeHost) {
			delete(h.running, "c1")
			h.unsure = true
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, n *node) {
				c.before(n.host)
				answer := waiting(t, n, "c1")
				n.host.set(func() { c.change(n.host) }, "c1", "c7")
				synctest.Wait()
				select {
				case a := <-answer:
					if !c.gone || a.Error == nil || a.Error.Code != spec.BadNamespace {
						t.Errorf("%v", a.Error)
					}
				default:
					if c.gone {
						t.Error("it still waits")
					}
					n.call(t.Context(), "DEL", "c1", "", blue)
					<-answer
				}
				if n.show() != "" || len(n.Pending()) > 0 {
					t.Errorf("left\n%s\n%v", n.show(), n.Pending())
				}
			})
		})
	}
}

// TestLateDEL: the DEL of a container that was before never touches the one
// that is, also after a restart; pods of one name are told apart.
func TestLateDEL(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		added(t, n, "old")
		added(t, n, "c1")
		n.call(t.Context(), "DEL", "old", "", blue)
		one := n.show()
		for range 2 {
			for _, network := range []string{blue, strings.Replace(blue, `"blue"`, `"green"`, 1)} {
				if a := n.call(t.Context(), "DEL", "old", "/run/netns/7", network); a.Error != nil || n.show() != one {
					t.Errorf("%v\n%s", a.Error, n.show())
				}
			}
			n.restart()
		}
	})
}

// TestLostDEL: a container that is made again under its id, whose DEL never
// came, is attached anew.
func TestLostDEL(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		added(t, n, "c1")
		one := n.show()
		n.host.at["/run/netns/7"] = 9
		added(t, n, "c1")
		st, _ := n.sched.Get(t.Context(), inside)
		if n.show() != one || !strings.Contains(fmt.Sprint(st.Desired), "inode:9") {
			t.Errorf("%v\n%s", st.Desired, n.show())
		}
	})
}

// TestDELNotRecorded: it succeeds also if it cannot be recorded, says so, and leaves a note for
// the next start, which knows nothing of it.
func TestDELNotRecorded(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		added(t, n, "c1", "c2")
		n.disk.full = true
		a := n.call(t.Context(), "DEL", "c1", "/run/netns/7", blue)
		if a.Error != nil || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "cannot be written to the state directory") {
			t.Errorf("%v", a)
		}
		if strings.Contains(n.show(), "7a9ae503637b") || len(n.host.left) != 1 || n.host.left[0].ContainerID != "c1" {
			t.Errorf("left\n%s\nnoted %v", n.show(), n.host.left)
		}
		if a := n.call(t.Context(), "STATUS", "", "", blue); codeOf(a) != spec.Degraded {
			t.Errorf("STATUS: %v", a.Error)
		}
		n.kernel.stuck.Store(true)
		if a := n.call(t.Context(), "DEL", "c2", "/run/netns/7", blue); a.Error != nil || len(a.Warnings) != 2 {
			t.Errorf("what does not go at once: %v", a)
		}
		n.kernel.stuck.Store(false)
		time.Sleep(10 * time.Minute)
		n.disk.full = false
		n.Sweep(t.Context())
		if n.show() != "" {
			t.Errorf("left\n%s", n.show())
		}
	})
}

// TestDELSucceeds plays N8a to N8h: whatever is missing, DEL succeeds at once and leaves
// nothing.
func TestDELSucceeds(t *testing.T) {
	forget := func(n *node, k scheduler.Key) {
		n.kernel.mu.Lock()
		defer n.kernel.mu.Unlock()
		delete(n.kernel.objects, k)
	}
	for name, c := range map[string]struct {
		before func(t *testing.T, n *node)
		netns  string
		config string
	}{
		"a container": {before: func(_ *testing.T, n *node) { n.host.unsure = true }},
		"b netns":     {before: func(_ *testing.T, n *node) { n.host.at["/run/netns/7"] = 0 }, netns: "/run/netns/7"},
		"c link":      {before: func(_ *testing.T, n *node) { forget(n, inside) }, netns: "/run/netns/7"},
		"d address":   {before: func(_ *testing.T, n *node) { forget(n, "route/cni:blue:7a9ae503637bb214") }, netns: "/run/netns/7"},
		"e result":    {config: strings.Replace(blue, "{", `{"prevResult":{"cniVersion":"9","ips":7},`, 1)},
		"f record":    {before: func(t *testing.T, n *node) { n.call(t.Context(), "DEL", "c1", "", blue) }},
		"g no path":   {netns: ""},
		"the pool":    {config: `{"cniVersion":"1.1.0","name":"blue"}`},
		"the mode":    {config: strings.Replace(blue, "{", `{"mode":"gone",`, 1)},
		"the keys":    {config: strings.Replace(blue, "{", `{"vlan":7,"masqurade":true,`, 1)},
		"the types":   {config: `{"cniVersion":"1.1.0","name":"blue","pool":7,"bridge":[],"mtu":"1500","routes":"none","ipam":7,"args":1,"dns":1,"sysctl":1,"runtimeConfig":1,"cni.dev/valid-attachments":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, n *node) {
				added(t, n, "c1")
				if c.before != nil {
					c.before(t, n)
				}
				if c.config == "" {
					c.config = blue
				}
				began := time.Now()
				for range 2 {
					if a := n.call(t.Context(), "DEL", "c1", c.netns, c.config); a.Error != nil || time.Since(began) > 0 {
						t.Errorf("%v after %s", a.Error, time.Since(began))
					}
				}
				if n.show() != "" {
					t.Errorf("left\n%s", n.show())
				}
			})
		})
	}
	t.Run("h unfinished", func(t *testing.T) {
		in(t, func(t *testing.T, n *node) {
			added(t, n, "c1")
			n.kernel.stuck.Store(true)
			began := time.Now()
			if a := n.call(t.Context(), "DEL", "c1", "", blue); a.Error != nil || len(a.Warnings) != 1 || time.Since(began) > 10*time.Second {
				t.Errorf("%v after %s", a, time.Since(began))
			}
			if !strings.Contains(n.show(), inside) {
				t.Error("nothing was left")
			}
			n.kernel.stuck.Store(false)
			time.Sleep(10 * time.Minute)
			n.Sweep(t.Context())
			if n.show() != "" {
				t.Errorf("left\n%s", n.show())
			}
		})
	})
}

const gcBlue = `{"cniVersion":"1.1.0","name":"blue","pool":"10.62.0.0/29","bridge":"br-blue",`

// TestGC: what the runtime does not know goes, under either name of the key; what
// runs is kept whatever the runtime says; other networks are not touched.
func TestGC(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		before func(h *fakeHost)
		left   string
		code   int
		warned int
	}{
		"one of three":    {config: `"cni.dev/valid-attachments":[{"containerID":"c2","ifname":"eth0"}]}`, left: "c2 g1"},
		"the older key":   {config: `"cni.dev/attachments":[{"containerID":"c2","ifname":"eth0"}]}`, left: "c2 g1"},
		"another name":    {config: `"cni.dev/valid-attachments":[{"containerID":"c2","ifname":"eth1"}]}`, left: "g1"},
		"none":            {config: `"cni.dev/valid-attachments":[]}`, left: "g1"},
		"null":            {config: `"cni.dev/valid-attachments":null}`, left: "g1"},
		"the key is none": {config: `"x":1}`, left: "c1 c2 c3 g1", code: spec.BadConfig},
		"one runs": {config: `"cni.dev/valid-attachments":[]}`, left: "c3 g1", warned: 1,
			before: func(h *fakeHost) { h.running["c3"] = true }},
		"it cannot be told": {config: `"cni.dev/valid-attachments":[]}`, left: "c1 c2 c3 g1", warned: 3,
			before: func(h *fakeHost) { h.unsure = true }},
		"it cannot be told, but they are gone": {config: `"cni.dev/valid-attachments":[]}`, left: "g1",
			before: func(h *fakeHost) { h.unsure, h.at["/run/netns/7"] = true, 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, n *node) {
				added(t, n, "c1", "c2", "c3")
				green := `{"cniVersion":"1.1.0","name":"green","pool":"10.63.0.0/29","bridge":"br-green"}`
				if a := n.call(t.Context(), "ADD", "g1", "/run/netns/7", green); a.Error != nil {
					t.Fatal(a.Error)
				}
				time.Sleep(time.Minute)
				if c.before != nil {
					c.before(n.host)
				}
				a := n.call(t.Context(), "GC", "", "", gcBlue+c.config)
				if code := codeOf(a); code != c.code || len(a.Warnings) != c.warned {
					t.Errorf("%v", a)
				}
				if got := n.attached(); got != c.left {
					t.Errorf("left %s, want %s", got, c.left)
				}
			})
		})
	}
}

func codeOf(a wire.Answer) int {
	if a.Error == nil {
		return 0
	}
	return a.Error.Code
}

func (n *node) attached() string {
	var ids []string
	for _, a := range n.Attachments() {
		ids = append(ids, a.Key.ContainerID)
	}
	return strings.Join(ids, " ")
}

// TestGCErrors: what fails keeps nobody else, and all of it is reported.
func TestGCErrors(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		added(t, n, "c1", "c2")
		time.Sleep(time.Minute)
		n.kernel.stuck.Store(true)
		a := n.call(t.Context(), "GC", "", "", gcBlue+`"cni.dev/valid-attachments":[]}`)
		if codeOf(a) != spec.TryLater || !strings.Contains(a.Error.Details, "blue/c1/eth0") || !strings.Contains(a.Error.Details, "blue/c2/eth0") {
			t.Errorf("%v", a.Error)
		}
		n.kernel.stuck.Store(false)
		time.Sleep(10 * time.Minute)
		n.Sweep(t.Context())
		if n.show() != "" {
			t.Errorf("left\n%s", n.show())
		}
	})
}

// TestADDDuringGC: what is younger than the call, or being made, is kept.
func TestADDDuringGC(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		answer := waiting(t, n, "c1")
		added(t, n, "old")
		time.Sleep(time.Second)
		added(t, n, "young")
		if a := n.call(t.Context(), "GC", "", "", gcBlue+`"cni.dev/valid-attachments":[]}`); a.Error != nil {
			t.Error(a.Error)
		}
		if got := n.attached(); got != "c1 young" {
			t.Errorf("left %s", got)
		}
		n.call(t.Context(), "DEL", "c1", "", blue)
		<-answer
	})
}

// TestSTATUS: 0, 50 and 51; N13: calls are served whatever it said.
func TestSTATUS(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		status := func(want int, details string) {
			t.Helper()
			a := n.call(t.Context(), "STATUS", "", "", blue)
			if codeOf(a) != want || want != 0 && !strings.Contains(a.Error.Details, details) {
				t.Errorf("%v, want %d", a.Error, want)
			}
		}
		status(0, "")
		n.host.unready = "etcd has not told all that it wants"
		status(spec.Unavailable, "etcd")
		n.host.lost = "the interfaces of this host cannot be read"
		status(spec.Degraded, "cannot be read")
		added(t, n, "c1")
		n.host.unready, n.host.lost = "", ""
		added(t, n, "c2", "c3", "c4") // of a /29 with a gateway there are five
		status(0, "")
		added(t, n, "c5")
		status(spec.Unavailable, "ippool/cni:blue")
		n.call(t.Context(), "DEL", "c5", "", blue)
		status(0, "")
	})
}

// TestSweep: what serves nobody is removed by itself, but not before it is sure.
func TestSweep(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		added(t, n, "c1")
		one := n.show()
		sweep := func(want int, why string) {
			t.Helper()
			if got := n.Sweep(t.Context()); got != want {
				t.Errorf("%s: %d removed, want %d", why, got, want)
			}
		}
		sweep(0, "all is well")
		n.host.at["/run/netns/7"], n.host.unsure = 0, true
		sweep(0, "not sure")
		sweep(0, "not sure")
		n.host.unsure, n.host.running["c1"] = false, true
		sweep(0, "it runs")
		sweep(0, "it runs")
		n.host.running["c1"] = false
		sweep(0, "gone for the first time")
		delete(n.host.at, "/run/netns/7")
		sweep(0, "back again")
		n.host.at["/run/netns/7"] = 0
		sweep(0, "gone for the first time")
		if n.show() != one {
			t.Errorf("something was changed:\n%s", n.show())
		}
		sweep(1, "gone for the second time")
		if n.show() != "" {
			t.Errorf("left\n%s", n.show())
		}
		delete(n.host.at, "/run/netns/7")
		added(t, n, "c1")
		n.host.at["/run/netns/7"] = 9
		sweep(1, "a stranger's")
		answer := waiting(t, n, "c2")
		sweep(0, "an ADD is at work")
		n.call(t.Context(), "DEL", "c2", "", blue)
		<-answer
		if n.show() != "" {
			t.Errorf("left\n%s", n.show())
		}
	})
}

// TestStopLeavesNothingHalfDone: an ADD that waits when the agent stops is
// undone before the engine ends; one that cannot be undone holds up nobody for long,
// and the sweep completes it.
func TestStopLeavesNothingHalfDone(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		for _, stuck := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			answer := make(chan wire.Answer, 1)
			go func() { answer <- n.call(ctx, "ADD", "c1", "/run/netns/8", blue) }()
			synctest.Wait()
			n.kernel.stuck.Store(stuck)
			n.kernel.hangs.Store(stuck)
			began := time.Now()
			cancel()
			if a := <-answer; codeOf(a) != spec.TryLater || time.Since(began) > time.Second || (n.show() != "") != stuck {
				t.Errorf("stuck %v: %v after %s\n%s", stuck, a.Error, time.Since(began), n.show())
			}
		}
		n.kernel.stuck.Store(false)
		n.kernel.hangs.Store(false)
		time.Sleep(10 * time.Minute)
		n.Sweep(t.Context())
		if n.show() != "" {
			t.Errorf("left\n%s", n.show())
		}
	})
}

// TestQueuedDEL: a DEL that was left while the agent was down does not touch
// what was attached under the same name since.
func TestQueuedDEL(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		left := time.Now().Unix()
		time.Sleep(10 * time.Second)
		added(t, n, "c1")
		one := n.show()
		for _, step := range []struct {
			at   int64
			want string
		}{{left, one}, {time.Now().Unix() + 1, ""}} {
			c, wrong := cni.Parse(wire.Request{Queued: step.at, Config: []byte(blue), Args: spec.Args{Command: "DEL", ContainerID: "c1", IfName: "eth0"}})
			if wrong != nil {
				t.Fatal(wrong)
			}
			if a := n.Serve(t.Context(), c); a.Error != nil || n.show() != step.want {
				t.Errorf("%d: %v\n%s", step.at, a.Error, n.show())
			}
		}
	})
}

// TestSameSetting: two networks of one container that ask for one value of a setting agree. When
// the one that holds it leaves, the other inherits it; over a restart nobody's changes.
func TestSameSetting(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		on := func(network, value string) string {
			return fmt.Sprintf(`{"cniVersion":"1.1.0","name":%q,"pool":"10.6%d.0.0/29","sysctl":{"net.core.somaxconn":%q}}`, network, len(network), value)
		}
		add := func(ifname, config string) {
			t.Helper()
			if a := n.callFor(t.Context(), "ADD", "c1", ifname, "/run/netns/7", config); a.Error != nil {
				t.Error(a.Error)
			}
		}
		settings := func() (keys []string) {
			synctest.Wait() // a DEL does not wait for the setting that another inherits
			for line := range strings.SplitSeq(n.show(), "\n") {
				if strings.HasPrefix(line, "sysctl/") {
					keys = append(keys, line)
				}
			}
			return keys
		}
		add("eth0", on("green", "1"))
		green := settings()
		add("eth1", on("blue", "1"))
		add("eth2", on("apples", "1"))
		add("eth3", on("orchids", "2"))
		if got := settings(); len(green) != 1 || len(got) != 2 || !slices.Contains(got, green[0]) {
			t.Errorf("%v, then %v", green, got)
			return
		}
		for _, gone := range []struct{ ifname, network string }{{"eth0", "green"}, {"eth1", "blue"}, {"eth2", "apples"}} {
			before := settings()
			n.restart()
			if got := settings(); !slices.Equal(got, before) || len(got) != 2 {
				t.Errorf("after a restart %v, before %v", got, before)
			}
			if a := n.callFor(t.Context(), "DEL", "c1", gone.ifname, "", on(gone.network, "1")); a.Error != nil || len(a.Warnings) > 0 {
				t.Errorf("%+v", a)
			}
		}
		if got := settings(); len(got) != 1 || !strings.Contains(got[0], "cni:orchids:") {
			t.Errorf("left %v", got)
		}
	})
}

// TestFlowsOfFormerOwners: tracked connections with the address of a container are deleted before it
// uses the address and after it has ended, and not when an attachment is restored.
func TestFlowsOfFormerOwners(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		deleted := func(want ...string) {
			t.Helper()
			n.host.mu.Lock()
			defer n.host.mu.Unlock()
			if !slices.Equal(n.host.flowsOf, want) {
				t.Errorf("connections of %v were deleted, want %v", n.host.flowsOf, want)
			}
			n.host.flowsOf = nil
		}
		added(t, n, "c1")
		deleted("[10.62.0.2]")
		n.restart()
		deleted()
		if a := n.call(t.Context(), "DEL", "c1", "/run/netns/7", blue); a.Error != nil {
			t.Fatal(a.Error)
		}
		deleted("[10.62.0.2]")
	})
}
