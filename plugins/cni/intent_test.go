package cni_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/scheduler"
)

// podsOf is where pods are, by the store alone.
func podsOf(store *cni.Store) scheduler.Descriptor[*models.NamespaceRef, struct{}] {
	type found = scheduler.Found[*models.NamespaceRef, struct{}]
	var needed sync.Map // which keys are wanted
	return scheduler.Descriptor[*models.NamespaceRef, struct{}]{
		Name: models.KindNamespace, Prefix: models.KindNamespace + "/",
		Equal:    func(_ scheduler.Key, a, b *models.NamespaceRef) bool { return proto.Equal(a, b) },
		Interest: func(k scheduler.Key, wanted bool) { needed.Store(k, wanted) },
		Retrieve: func(_ context.Context, s scheduler.Scope[*models.NamespaceRef, struct{}]) iter.Seq2[found, error] {
			return func(yield func(found, error) bool) {
				for key, wanted := range needed.Range {
					k := key.(scheduler.Key)
					name, _ := models.Unescape(strings.TrimPrefix(string(k), "namespace/pod:"))
					path, inode := store.Pod(name)
					if wanted.(bool) && path != "" && s.Has(k) && !yield(found{Key: k, Value: &models.NamespaceRef{Path: path, Inode: inode}}, nil) {
						return
					}
				}
			}
		},
	}
}

const green = `{"cniVersion":"1.1.0","name":"green","mode":"intent"}`

// pod calls with the arguments of a pod, <namespace>/<name> with the UID 1 or <namespace>/<name>/<uid>.
func (n *node) pod(ctx context.Context, command, container, netns, pod, config string) wire.Answer {
	n.t.Helper()
	space, name, _ := strings.Cut(pod, "/")
	name, uid, _ := strings.Cut(name, "/")
	uid = cmp.Or(uid, "1")
	inode, _ := n.host.Namespace(netns)
	c, wrong := cni.Parse(wire.Request{Protocol: 1, Config: json.RawMessage(config), Inode: inode, Args: spec.Args{
		Command: command, ContainerID: container, IfName: "eth0", Netns: netns,
		Args: "IgnoreUnknown=1;K8S_POD_NAME=" + name + ";K8S_POD_NAMESPACE=" + space + ";K8S_POD_UID=" + uid}})
	if wrong != nil {
		return wire.Answer{Error: wrong}
	}
	return n.Serve(ctx, c)
}

// wired is what an operator wants in a pod: a cable, an address of a pool, a route.
func wired(pod string) []scheduler.Change {
	in := &models.Namespace{In: &models.Namespace_Pod{Pod: pod}}
	return []scheduler.Change{
		scheduler.Set("ippool/office", &models.IPPool{Network: "10.9.0.0/24", Gateway: "10.9.0.1"}),
		scheduler.Set("ipclaim/web", &models.IPClaim{Pool: "office"}),
		scheduler.Set("interface/web", &models.Interface{Namespace: in, HostName: "eth0", MacAddress: "02:00:00:00:00:07", Mtu: 1400,
			Addresses: []string{"claim:web", "fd09::7/64"}, Link: &models.Interface_Veth{Veth: &models.Veth{Peer: "web-host"}}}),
		scheduler.Set("interface/web-host", &models.Interface{HostName: "web0", Link: &models.Interface_Veth{Veth: &models.Veth{Peer: "web"}}}),
		scheduler.Set("interface/web-data", &models.Interface{Namespace: in, HostName: "data0", Link: &models.Interface_Dummy{Dummy: &models.Dummy{}}}),
		scheduler.Set("route/web", &models.Route{Interface: "web", Destination: "default", Gateway: "10.9.0.1"}),
	}
}

// without is what takes changes back.
func without(list []scheduler.Change) (back []scheduler.Change) {
	for _, c := range list {
		back = append(back, scheduler.Withdraw(c.Key))
	}
	return back
}

// TestIntent: an ADD waits for what an operator wants in the pod, whenever it
// comes, and is answered when all of it is there; a DEL takes it out of the pod, and
// leaves the wish for the next.
func TestIntent(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		answer := make(chan wire.Answer, 1)
		go func() { answer <- n.pod(t.Context(), "ADD", "c1", "/run/netns/8", "default/web", green) }()
		time.Sleep(20 * time.Second)
		began := time.Now()
		n.sched.Submit(scheduler.Txn{Source: "operator", Want: wired("default/web")})
		a := <-answer
		if a.Error != nil || time.Since(began) > 0 {
			t.Fatalf("%v after %s", a.Error, time.Since(began))
		}
		if len(a.Result.IPs) != 2 || a.Result.IPs[0].Gateway != "10.9.0.1" || len(a.Result.Routes) != 1 || len(a.Result.Interfaces) != 3 {
			t.Errorf("%+v", a.Result)
		}
		before := n.show()
		if !strings.Contains(before, "interface/web-data") || !strings.Contains(before, "route/web") {
			t.Errorf("it was answered early:\n%s", before)
		}
		n.restart()
		n.operator(wired("default/web")...)
		if n.show() != before {
			t.Errorf("after a start\n%s\nbefore\n%s", n.show(), before)
		}
		if a := n.pod(t.Context(), "CHECK", "c1", "/run/netns/8", "default/web", withResult(t, n.Service, green, "c1", "eth0")); a.Error != nil {
			t.Error(a.Error)
		}
		if a := n.pod(t.Context(), "DEL", "c1", "", "default/web", green); a.Error != nil || len(a.Warnings) > 0 {
			t.Errorf("%+v", a)
		}
		if left := n.show() + "\n"; strings.Contains(left, "interface/web\n") || strings.Contains(left, "interface/web-data") || strings.Contains(left, "attachment/") {
			t.Errorf("left\n%s", left)
		}
		began = time.Now()
		if a := n.pod(t.Context(), "ADD", "c2", "/run/netns/9", "default/web", green); a.Error != nil || time.Since(began) > 0 {
			t.Errorf("the next: %v", a.Error)
		}
	})
}

// TestOtherEnd: what is waited for last may live elsewhere: the other end of the
// cable, in a namespace that comes late.
func TestOtherEnd(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		values := wired("default/web")
		values[3] = scheduler.Set("interface/web-host", &models.Interface{HostName: "web0", Link: &models.Interface_Veth{Veth: &models.Veth{Peer: "web"}},
			Namespace: &models.Namespace{In: &models.Namespace_Path{Path: "/run/netns/router"}}})
		n.operator(values...)
		answer := make(chan wire.Answer, 1)
		go func() { answer <- n.pod(t.Context(), "ADD", "c1", "/run/netns/8", "default/web", green) }()
		time.Sleep(5 * time.Second)
		began := time.Now()
		n.sched.Submit(scheduler.Txn{Source: "operator", Want: []scheduler.Change{n.places.Set("place/_run_netns_router", "x")}})
		if a := <-answer; a.Error != nil || time.Since(began) > 0 || len(a.Result.Interfaces) != 2 {
			t.Errorf("%+v after %s", a, time.Since(began))
		}
	})
}

// TestPodsOfOneName: values of a pod with a UID are in no other pod of that name, whichever of the two is
// attached or detached first.
func TestPodsOfOneName(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		short := strings.Replace(green, "}", `,"wait":3}`, 1)
		n.operator(wired("default/web/old")...)
		if a := n.pod(t.Context(), "ADD", "c1", "/run/netns/7", "default/web/old", short); a.Error != nil {
			t.Fatal(a.Error)
		}
		before := n.show()
		a := n.pod(t.Context(), "ADD", "c2", "/run/netns/8", "default/web/new", short)
		if a.Error == nil || !strings.Contains(a.Error.Details, "not in the intent") {
			t.Errorf("the pod without values: %+v", a)
		}
		if n.show() != before {
			t.Errorf("the ADD of another pod changed\n%s\nto\n%s", before, n.show())
		}
		n.operator(wired("default/web/new")...) // the same keys, as when a pod is created again
		if a := n.pod(t.Context(), "ADD", "c2", "/run/netns/8", "default/web/new", short); a.Error != nil {
			t.Fatal(a.Error)
		}
		after := n.show()
		if a := n.pod(t.Context(), "DEL", "c1", "", "default/web/old", short); a.Error != nil || len(a.Warnings) > 0 {
			t.Errorf("the late DEL: %+v", a)
		}
		if want := strings.Replace(after, "attachment/green/c1/eth0\n", "", 1); n.show() != want {
			t.Errorf("after the late DEL\n%s\nwant\n%s", n.show(), want)
		}
		n.pod(t.Context(), "DEL", "c2", "", "default/web/new", short)
		if got := n.show(); strings.Contains(got, "interface/web-data") {
			t.Errorf("left\n%s", got)
		}
	})
}

// TestPodIsAwaited: an ADD that waits tells why values for its pod may still come, and ends at once when the pod was
// deleted. The host is told when a pod is attached and when it is detached.
func TestPodIsAwaited(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		const why = "the API server does not answer"
		n.host.awaits(why, nil)
		short := strings.Replace(green, "}", `,"wait":3}`, 1)
		a := n.pod(t.Context(), "ADD", "c1", "/run/netns/7", "default/web/u", short)
		if a.Error == nil || !strings.HasSuffix(a.Error.Details, "which is not in the intent: "+why) {
			t.Errorf("%+v", a.Error)
		}
		web := cni.Pod{Namespace: "default", Name: "web", UID: "u"}
		if n.host.asked != web {
			t.Errorf("asked for %+v, want %+v", n.host.asked, web)
		}
		answer := make(chan wire.Answer, 1)
		go func() { answer <- n.pod(t.Context(), "ADD", "c1", "/run/netns/7", "default/web/u", green) }()
		time.Sleep(10 * time.Second)
		began := time.Now()
		n.host.awaits("", errors.New("the pod was deleted"))
		n.PodChanged("default/web")
		if a := <-answer; a.Error == nil || a.Error.Msg != cni.ErrDeleted.Error() || time.Since(began) > 0 {
			t.Errorf("%+v after %s", a.Error, time.Since(began))
		}
		n.host.awaits("", nil)
		n.host.changed = nil
		n.operator(wired("default/web/u")...)
		n.pod(t.Context(), "ADD", "c1", "/run/netns/7", "default/web/u", green)
		n.pod(t.Context(), "DEL", "c1", "", "default/web/u", green)
		if !slices.Equal(n.host.changed, []cni.Pod{web, web}) {
			t.Errorf("changed are %+v", n.host.changed)
		}
	})
}

// TestNobodyWantsIt: without intent an ADD fails at its limit and says what it
// waited for; with a pool it does without, and what is wanted later waits in its turn.
func TestNobodyWantsIt(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		a := n.pod(ctx, "ADD", "c1", "/run/netns/7", "default/web", green)
		if a.Error == nil || a.Error.Code != spec.TryLater || !strings.Contains(a.Error.Details, "an interface called eth0 in the pod default/web") {
			t.Errorf("at the limit: %v", a.Error)
		}
		short := strings.Replace(green, "}", `,"wait":3}`, 1)
		began := time.Now()
		if a := n.pod(t.Context(), "ADD", "c1", "/run/netns/7", "default/web", short); a.Error == nil || a.Error.Code != spec.TryLater || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %s", a.Error, time.Since(began))
		}
		if n.show() != "" {
			t.Errorf("left\n%s", n.show())
		}
		pooled := strings.Replace(green, "}", `,"pool":"10.62.0.0/24","wait":2}`, 1)
		began = time.Now()
		a = n.pod(t.Context(), "ADD", "c1", "/run/netns/7", "default/web", pooled)
		if a.Error != nil || a.Result.IPs[0].Address != "10.62.0.2/24" || time.Since(began) != 2*time.Second {
			t.Errorf("%+v after %s", a, time.Since(began))
		}
		before := n.show()
		n.operator(wired("default/web")...)
		if got := n.show() + "\n"; strings.Contains(got, "interface/web\n") {
			t.Errorf("two in one pod:\n%s", got)
		}
		n.operator(without(wired("default/web"))...)
		n.restart()
		if n.show() != before {
			t.Errorf("after a start\n%s\nbefore\n%s", n.show(), before)
		}
		n.pod(t.Context(), "DEL", "c1", "", "default/web", pooled)
		if n.show() != "" {
			t.Errorf("left\n%s", n.show())
		}
	})
}

// TestSamePodAgain: a pod of the same name is made again while the first is
// still there: its ADD is answered when all is in the new one, and the late DEL of the
// first touches nothing, also after a start.
func TestSamePodAgain(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		n.operator(wired("default/web")...)
		if a := n.pod(t.Context(), "ADD", "c1", "/run/netns/7", "default/web", green); a.Error != nil {
			t.Fatal(a.Error)
		}
		time.Sleep(time.Second)
		a := n.pod(t.Context(), "ADD", "c2", "/run/netns/8", "default/web", green)
		if a.Error != nil || a.Result.Interfaces[1].Sandbox != "/run/netns/8" {
			t.Fatalf("%+v", a)
		}
		n.restart()
		n.operator(wired("default/web")...)
		st, err := n.sched.Get(t.Context(), "namespace/pod:default%2Fweb")
		if ref, _ := st.Actual.(*models.NamespaceRef); err != nil || ref.GetPath() != "/run/netns/8" {
			t.Errorf("it is in %v, %v", ref, err)
		}
		before := n.show()
		if a := n.pod(t.Context(), "DEL", "c1", "/run/netns/7", "default/web", green); a.Error != nil {
			t.Error(a.Error)
		}
		if n.show() != strings.Replace(before, "attachment/green/c1/eth0\n", "", 1) {
			t.Errorf("after a late DEL\n%s\nbefore\n%s", n.show(), before)
		}
	})
}

// TestIntentDeleted: a DEL ends an ADD that waits for an operator, at once.
func TestIntentDeleted(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		answer := make(chan wire.Answer, 1)
		go func() { answer <- n.pod(t.Context(), "ADD", "c1", "/run/netns/8", "default/web", green) }()
		synctest.Wait()
		began := time.Now()
		n.pod(t.Context(), "DEL", "c1", "", "default/web", green)
		if a := <-answer; a.Error == nil || a.Error.Msg != cni.ErrDeleted.Error() || time.Since(began) > 0 {
			t.Errorf("%v after %s", a.Error, time.Since(began))
		}
		if n.show() != "" {
			t.Errorf("left\n%s", n.show())
		}
	})
}

// TestPodOfArgs: the order of CNI_ARGS means nothing; without a pod it is the
// container's id that values name.
func TestPodOfArgs(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		n.operator(wired("c1")...)
		if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", green); a.Error != nil {
			t.Error(a.Error)
		}
		n.operator(wired("default/web")...)
		c, _ := cni.Parse(wire.Request{Protocol: 1, Config: json.RawMessage(green), Inode: 8, Args: spec.Args{Command: "ADD", ContainerID: "c2", IfName: "eth0",
			Netns: "/run/netns/8", Args: "K8S_POD_NAMESPACE=default;IgnoreUnknown=1;K8S_POD_NAME=web"}})
		if a := n.Serve(t.Context(), c); a.Error != nil {
			t.Error(a.Error)
		}
	})
}
