package route_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// TestBehindAnotherRoute: others put a route of theirs before ours, with the same destination, table
// and metric. That is a conflict, neither route is touched, and ours is as wished once theirs is gone.
func TestBehindAnotherRoute(t *testing.T) {
	b := newBench(t)
	const value = `{"interface":"a","destination":"10.7.0.0/16","gateway":"10.0.0.9"}`
	b.must("r", value)
	b.same()
	for _, theirs := range []string{"10.7.0.0/16 via 10.0.0.8 proto boot", "10.7.0.0/16 via 10.0.0.9 dev a proto bird", "blackhole 10.7.0.0/16 proto static"} {
		b.net.IP(t, "route prepend "+theirs)
		before := b.net.IP(t, "route show")
		kn := b.in["route/r"]
		var actual *models.Route
		for f, err := range b.kind.Retrieve(t.Context(), scope{Keys: []scheduler.Key{"route/r"}, Known: []known{kn}}) {
			if err != nil {
				t.Fatal(err)
			}
			actual = f.Value
		}
		if verdict := b.kind.Compare(kn.Key, actual, kn.Value); verdict.Change != scheduler.InPlace || !strings.Contains(verdict.Reason, "behind a route of ") {
			t.Errorf("behind %s: %v", theirs, verdict)
		}
		for what, err := range map[string]error{
			"repair": func() error {
				_, err := b.kind.Update(t.Context(), kn.Key, actual, kn.Value, kn.Meta)
				return err
			}(),
			"creation": b.add("r", value),
		} {
			var class *scheduler.OpError
			if !errors.As(err, &class) || class.Owner == "" || !strings.Contains(err.Error(), "takes its packets") {
				t.Errorf("%s behind %s: %v, want a conflict", what, theirs, err)
			}
		}
		if after := b.net.IP(t, "route show"); after != before {
			t.Errorf("the routes were touched:\n%s\n%s", before, after)
		}
		b.net.IP(t, "route del "+theirs)
		b.in["route/r"] = kn
		b.same()
	}
	// A route for packets of one TOS is another one.
	b.net.IP(t, "route prepend 10.7.0.0/16 tos 0x10 via 10.0.0.8")
	b.same()
	b.delete("r")
	if got := b.net.IP(t, "route show 10.7.0.0/16"); !strings.Contains(got, "tos") || strings.Contains(got, "10.0.0.9") {
		t.Errorf("left %s", got)
	}
}
