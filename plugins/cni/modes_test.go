package cni_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// operator says more, or less, of what an operator wants.
func (n *node) operator(changes ...scheduler.Change) {
	n.sched.Submit(scheduler.Txn{Source: "operator", Want: changes})
	synctest.Wait()
}

// TestRow55_OperatorPool: what an operator's pool gave is wanted again after a start,
// before anybody knows the pool again.
func TestRow55_OperatorPool(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		config := `{"cniVersion":"1.1.0","name":"blue","pool":"office"}`
		if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", config); a.Error == nil || !strings.Contains(a.Error.Details, "ippool/office") {
			t.Errorf("without the pool: %v", a.Error)
		}
		office := scheduler.Set("ippool/office", &models.IPPool{Network: "10.9.0.0/24", Gateway: "10.9.0.1"})
		n.operator(office)
		if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", config); a.Error != nil || a.Result.IPs[0].Gateway != "10.9.0.1" {
			t.Fatal(a)
		}
		before := n.show()
		n.restart()
		n.operator(office)
		if n.show() != before {
			t.Errorf("after a start\n%s\nbefore\n%s", n.show(), before)
		}
		if a := n.call(t.Context(), "ADD", "c2", "/run/netns/7", config); a.Error != nil {
			t.Error(a.Error)
		}
	})
}
