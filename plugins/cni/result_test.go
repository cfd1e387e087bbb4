package cni_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// TestN06_Results reads testdata/results: a configuration, and the result of an ADD
// by it as each version says it.
func TestN06_Results(t *testing.T) {
	datadriven.RunTest(t, "testdata/results", func(t *testing.T, d *datadriven.TestData) (out string) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			defer n.stop()
			a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", d.Input)
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
