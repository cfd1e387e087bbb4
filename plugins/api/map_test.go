package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// shown is a map in a line: boxes with state and mark, then lines with kind and mark.
func shown(m *apiv1.MapResponse) string {
	var all []string
	for _, b := range m.Boxes {
		text := b.Id + " " + b.State
		if b.Parent != "" {
			text = b.Parent + " > " + text
		}
		all = append(all, strings.TrimSpace(text+" "+b.Mark))
	}
	for _, l := range m.Lines {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s-%s %s", l.Kind, l.From, l.To, l.Mark)))
	}
	return strings.Join(all, "\n")
}

func TestMap(t *testing.T) {
	c := newReal(t).start()
	ctx := t.Context()
	apply := func(deletes []string, items ...*apiv1.Item) time.Time {
		t.Helper()
		if _, err := c.Apply(ctx, &apiv1.ApplyRequest{Wait: true, Items: items, Delete: deletes}); err != nil {
			t.Fatal(err)
		}
		return time.Now()
	}
	is := func(what string, r *apiv1.MapRequest, want string) {
		t.Helper()
		m, err := c.Map(ctx, r)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if want = strings.TrimSpace(want); shown(m) != want {
			t.Errorf("%s: got\n%s\nwant\n%s", what, shown(m), want)
		}
		for _, b := range m.Boxes {
			if b.Width <= 0 || b.X+b.Width > m.Width || b.Y+b.Height > m.Height {
				t.Errorf("%s: %v is not in the drawing", what, b)
			}
		}
	}
	first := apply(nil, item("interface/br0", `{"bridge":{}}`), item("interface/eth0", `{"dummy":{},"master":"br0"}`),
		item("route/r0", `{"interface":"br0","destination":"10.0.0.0/8"}`))
	before := `
host
host > interface/br0 configured
host > interface/eth0 configured
host > route/r0 configured
master interface/eth0-interface/br0`
	is("now", new(apiv1.MapRequest), before)
	is("a plan", &apiv1.MapRequest{Plan: &apiv1.PlanRequest{Delete: []string{"interface/br0"}, Items: []*apiv1.Item{
		item("interface/new", `{"dummy":{},"mtu":1400}`), item("interface/eth0", `{"dummy":{},"mtu":1400,"master":"br0"}`),
	}}}, `
host
host > interface/br0 removed removed
host > interface/eth0 configured changed
host > interface/new configured created
host > route/r0 pending broken
master interface/eth0-interface/br0 removed
need route/r0-interface/br0 removed`)
	apply([]string{"interface/br0"}, item("interface/eth0", `{"dummy":{}}`), item("interface/new", `{"dummy":{}}`))
	after := `
host
host > interface/eth0 configured
host > interface/new configured
elsewhere
elsewhere > route/r0 pending`
	is("after that", new(apiv1.MapRequest), after)
	is("as it was", &apiv1.MapRequest{At: timestamppb.New(first)}, before)
	is("compared", &apiv1.MapRequest{Since: timestamppb.New(first)}, `
host
host > interface/br0 removed removed
host > interface/eth0 configured changed
host > interface/new configured created
host > route/r0 pending broken
need route/r0-interface/br0 removed`)

	for want, r := range map[string]*apiv1.MapRequest{
		"the history that is kept begins at": {At: timestamppb.New(time.Unix(1, 0))},
		"since is after at":                  {At: timestamppb.New(first), Since: timestamppb.New(first.Add(time.Second))},
		"a plan is made on what is now":      {At: timestamppb.New(first), Plan: new(apiv1.PlanRequest)},
		"interface/x: dummi: unknown field":  {Plan: &apiv1.PlanRequest{Items: []*apiv1.Item{item("interface/x", `{"dummi":{}}`)}}},
	} {
		if _, err := c.Map(ctx, r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want %q", r, err, want)
		}
	}
}
