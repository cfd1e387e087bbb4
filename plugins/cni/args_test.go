package cni_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
)

func argsCall(t testing.TB, command, args string) cni.Call {
	t.Helper()
	c, wrong := cni.Parse(wire.Request{Protocol: 1, Config: json.RawMessage(blue), Inode: 7,
		Args: spec.Args{Command: command, ContainerID: "c1", IfName: "eth0", Netns: "/run/netns/7", Args: args}})
	if wrong != nil {
		t.Fatal(wrong)
	}
	return c
}

// TestCNIArgs: what was asked for by CNI_ARGS is wanted after a restart too, and keeps no
// DEL from being done.
func TestCNIArgs(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		if a := n.Serve(t.Context(), argsCall(t, "ADD", "IP=10.62.0.5;MAC=02:00:00:00:00:07")); a.Error != nil || a.Result.IPs[0].Address != "10.62.0.5/29" {
			t.Fatal(a)
		}
		for range 2 {
			st, err := n.sched.Get(t.Context(), inside)
			if err != nil || !strings.Contains(fmt.Sprint(st.Desired), "02:00:00:00:00:07") {
				t.Errorf("%v, %v", st.Desired, err)
			}
			claim, err := n.sched.Get(t.Context(), "ipclaim/cni:blue:7a9ae503637bb214")
			if err != nil || !strings.Contains(fmt.Sprint(claim.Desired), "10.62.0.5") {
				t.Errorf("%v, %v", claim.Desired, err)
			}
			n.restart()
		}
		if a := n.Serve(t.Context(), argsCall(t, "DEL", "COLOUR=red;IP=nonsense;=;;")); a.Error != nil || n.show() != "" {
			t.Errorf("%v\n%s", a.Error, n.show())
		}
	})
}

// FuzzArgs: CNI_ARGS of any text are refused with a code that is documented, or are not.
func FuzzArgs(f *testing.F) {
	for _, args := range []string{"", "IP=10.62.0.7;MAC=92:d0:c6:0a:29:33", "IgnoreUnknown=1;IP=,fd62::7/64,", ";;=;IP==", "MAC=00:00:00:00:fe:80:00:00"} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, args string) {
		rt, wrong := cni.RuntimeOf(argsCall(t, "ADD", args))
		if wrong != nil && wrong.Code != spec.BadEnv && wrong.Code != spec.Unsupported {
			t.Errorf("%q: %v", args, wrong)
		}
		if wrong == nil && strings.ContainsAny(rt, ";,") {
			t.Errorf("%q: %s", args, rt)
		}
	})
}
