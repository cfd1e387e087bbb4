package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// TestUndo: the inverse of the last transaction, or of any, with what a kind derives and
// does not compare; what somebody has changed since is his, unless it is forced.
func TestUndo(t *testing.T) {
	c, _ := startReal(t)
	ctx := t.Context()
	apply := func(items ...string) uint64 {
		t.Helper()
		r := &apiv1.ApplyRequest{Wait: true}
		for _, i := range items {
			key, text, there := strings.Cut(i, " ")
			if !there {
				r.Delete = append(r.Delete, key)
				continue
			}
			r.Items = append(r.Items, &apiv1.Item{Key: key, Text: text})
		}
		if _, err := c.Apply(ctx, r); err != nil {
			t.Fatal(err)
		}
		h, err := c.History(ctx, &apiv1.HistoryRequest{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		return h.Records[0].Seq
	}
	undo := func(seq uint64, force bool) string {
		t.Helper()
		out, err := c.Undo(ctx, &apiv1.UndoRequest{Seq: seq, Apply: &apiv1.ApplyRequest{Wait: true, Force: force}})
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(out.Apply.Outcome, out.Apply.Notes)
	}
	is := func(want string) {
		t.Helper()
		all, err := c.ListKV(ctx, &apiv1.ListKVRequest{Prefix: "config/"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range all.Entries {
			got = append(got, strings.TrimPrefix(e.Key, "config/interface/")+"="+e.Value)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("the store holds %s, want %s", s, want)
		}
	}
	const none = "failed_precondition: the history has no transaction that changed intent in the store"
	if got := undo(0, false); got != none {
		t.Error(got)
	}
	apply(`interface/a {"dummy":{},"mtu":1400}`, `interface/b {"dummy":{}}`)
	second := apply(`interface/a {"dummy":{},"mtu":1500}`, "interface/b", `interface/c {"dummy":{}}`)
	if got := undo(0, false); got != "configured[]" {
		t.Error(got)
	}
	is(`a={"mtu":1400,"dummy":{}} b={"dummy":{}}`)
	if got := undo(0, false); got != "configured[]" { // the undo
		t.Error(got)
	}
	is(`a={"mtu":1500,"dummy":{}} c={"dummy":{}}`)

	apply(`interface/a {"dummy":{},"mtu":1600}`)
	if got := undo(second, false); !strings.Contains(got, fmt.Sprintf("interface/a changed after transaction %d", second)) {
		t.Error(got)
	}
	is(`a={"mtu":1600,"dummy":{}} c={"dummy":{}}`)
	if got := undo(second, true); got != "configured[interface/a was changed since, and is brought back nevertheless]" {
		t.Error(got)
	}
	is(`a={"mtu":1400,"dummy":{}} b={"dummy":{}}`)

	for seq, want := range map[uint64]string{
		999: "not_found: the history has no transaction 999; see `agentctl history`",
		1:   "failed_precondition: transaction 1 read all of etcd anew, after a start or a cut: it has no inverse",
	} {
		if got := undo(seq, false); got != want {
			t.Error(got)
		}
	}
}
