package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestHeldBack: a store that loses its keys, while the agent looks and while it is away,
// costs nothing until somebody releases what would go; what is written again is whole
// without one write to the kernel.
func TestHeldBack(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{NoEngine: true, Etcd: etcdtest.Start(t).URL()})
	s := operator(t, h)
	h.Start()
	want := intent{}
	for i := range 12 {
		want[fmt.Sprint("interface/t", i)] = fmt.Sprintf(`{"tap":{},"mac_address":"02:00:00:00:01:%02x","addresses":["10.9.%d.1/24"]}`, i, i)
		want[fmt.Sprint("route/r", i)] = fmt.Sprintf(`{"interface":"t%d","destination":"10.8.%d.0/24","gateway":"10.9.%d.2"}`, i, i, i)
	}
	s.commit(want.ops(s)...)
	awaitIntent(h, want)
	before := quiet(h, h.Exact)
	all := []clientv3.Op{clientv3.OpDelete(s.prefix, clientv3.WithPrefix())}

	for _, away := range []bool{false, true} {
		writes := h.KernelWrites()
		if away {
			h.Stop()
			writes = 0
		}
		s.commit(all...)
		if away {
			h.Start()
		}
		h.Eventually("all is held back", func() error {
			if held := heldBack(h); len(held) != 1 || held[0].Count != len(want) || !strings.Contains(held[0].Reason, "nothing is wanted any more") {
				return fmt.Errorf("held: %+v", held)
			}
			return nil
		})
		h.AwaitSettled()
		if err := same(before, h.Exact()); err != nil {
			t.Fatalf("away %v: %v", away, err)
		}
		s.commit(want.ops(s)...)
		awaitIntent(h, want)
		h.AwaitSettled()
		if held := heldBack(h); len(held) > 0 {
			t.Errorf("still held: %+v", held)
		}
		if n := h.KernelWrites(); n != writes {
			t.Errorf("away %v: %d writes to the kernel", away, n-writes)
		}
	}

	// Who deletes it by hand is told.
	keys := []string{"delete"}
	for k := range want {
		keys = append(keys, k)
	}
	if r := h.Ctl(keys...); r.Code != 0 || !strings.Contains(r.Err, "nothing is removed: held-2 is held back, since all 24 would go") {
		t.Errorf("delete: exit %d, %s", r.Code, r.Err)
	}
	if r := h.Ctl("release"); r.Code != 0 || !strings.Contains(r.Out, "24 keys") {
		t.Errorf("release: %s%s", r.Out, r.Err)
	}
	h.Eventually("all is gone", func() error {
		if strings.Contains(h.Exact(), "10.9.") {
			return fmt.Errorf("something is there")
		}
		return nil
	})
	if r := h.Ctl("release"); r.Code != 2 {
		t.Errorf("a second release: %s%s", r.Out, r.Err)
	}
}

type held struct {
	ID, Reason string
	Count      int
}

func heldBack(h *host.Host) []held {
	h.T().Helper()
	var st struct{ Held []held }
	if err := json.Unmarshal([]byte(h.MustCtl("status", "-o", "json")), &st); err != nil {
		h.T().Fatal(err)
	}
	return st.Held
}
