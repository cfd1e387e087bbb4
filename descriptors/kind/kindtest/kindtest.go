// Package kindtest is what the tests of kinds have in common.
package kindtest

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Says is what a kind thinks about values, without reading anything. The question is
// needs, claims or compare; the values are one in a line.
func Says[V proto.Message, M any](t testing.TB, d scheduler.Descriptor[V, M], question, key, values string) string {
	t.Helper()
	k, v := scheduler.Key(key), Decode[V](t, d.Name, values)
	var b strings.Builder
	switch question {
	case "needs":
		for _, n := range d.Needs(k, v[0]) {
			fmt.Fprintf(&b, "%s: %s\n", n, n.Why)
		}
	case "claims":
		for _, claim := range d.Claims(k, v[0]) {
			fmt.Fprintln(&b, claim.What)
		}
	case "compare":
		verdict := d.Compare(k, v[0], v[1])
		fmt.Fprintf(&b, "%s: %s\n", verdict.Change, verdict.Reason)
	default:
		t.Fatalf("unknown question %q", question)
	}
	return b.String()
}

// Decode reads values of a kind, one in a line.
func Decode[V proto.Message](t testing.TB, kind, values string) (list []V) {
	t.Helper()
	for line := range strings.Lines(values) {
		msg, err := models.DecodeKind(kind, []byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, msg.(V))
	}
	return list
}
