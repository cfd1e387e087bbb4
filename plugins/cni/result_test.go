package cni_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/scheduler"
)

// TestResults reads testdata/results: a configuration, and the result of an ADD
// by it as each version says it. Before it may stand what an operator wants.
func TestResults(t *testing.T) { playResults(t, "testdata/results") }

// TestRuntimeConfig is what runtimes add.
func TestRuntimeConfig(t *testing.T) { playResults(t, "testdata/runtime") }

// TestChained is the same after other plugins.
func TestChained(t *testing.T) { playResults(t, "testdata/chained") }

func playResults(t *testing.T, file string) {
	t.Helper()
	var wanted []scheduler.Change
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) (out string) {
		if d.Cmd == "operator" {
			wanted = nil
			for line := range strings.Lines(d.Input) {
				key, text, _ := strings.Cut(strings.TrimSpace(line), " ")
				kind, _, _ := strings.Cut(key, "/")
				v, err := models.DecodeKind(kind, []byte(text))
				must(t, err)
				wanted = append(wanted, scheduler.Set(scheduler.Key(key), v))
			}
			return ""
		}
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			defer n.stop()
			n.operator(wanted...)
			a := n.callWith(t.Context(), d.Input)
			if a.Error != nil {
				out = a.Error.Error() + "\n"
				return
			}
			var b strings.Builder
			last := ""
			for _, v := range spec.Versions {
				text, _ := json.MarshalIndent(a.Result.As(v), "", " ")
				plain := strings.Replace(string(text), `"`+v+`"`, `"…"`, 1)
				if plain == last {
					text = []byte("the same")
				}
				fmt.Fprintf(&b, "%s %s\n", v, text)
				last = plain
			}
			out = b.String()
		})
		return out
	})
}

// callWith is an ADD; the second line of the input, if there is one, is what another
// plugin has given.
func (n *node) callWith(ctx context.Context, input string) wire.Answer {
	n.t.Helper()
	config, given, _ := strings.Cut(input, "\n")
	args, isArgs := strings.CutPrefix(given, "CNI_ARGS=")
	if isArgs {
		given = ""
	} else {
		args = ""
	}
	r := wire.Request{Protocol: 1, Config: json.RawMessage(config), Inode: 7,
		Args: spec.Args{Command: "ADD", ContainerID: "c1", IfName: "eth0", Netns: "/run/netns/7", Args: args}}
	if given != "" {
		r.IPAM = &spec.Result{}
		must(n.t, json.Unmarshal([]byte(given), r.IPAM))
	}
	c, wrong := cni.Parse(r)
	if wrong != nil {
		return wire.Answer{Error: wrong}
	}
	return n.Serve(ctx, c)
}

// TestDelegatedResults is of addresses that another plugin has given.
func TestDelegatedResults(t *testing.T) { playResults(t, "testdata/delegated") }
