package e2e

import (
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestShadow: a shadow says what it would do and does nothing, whatever it is told; the
// same agent without it does what was wanted meanwhile.
func TestShadow(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{NoEngine: true, Etcd: etcdtest.Start(t).URL()})
	s := operator(t, h)
	h.Start()
	s.commit(goods.ops(s)...)
	awaitIntent(h, goods)
	h.Stop()
	s.delete("interface/tap0")
	s.put("interface/tap1", `{"tap":{}}`)
	s.put("interface/br0", strings.Replace(goods["interface/br0"], "10.40.0.254", "10.40.0.253", 1))

	h.Args = []string{"--shadow"}
	h.Start()
	h.AwaitSettled()
	s.put("interface/tap2", `{"tap":{}}`)
	h.Own.IP(t, "route delete 10.41.0.0/16") // others do what they like
	h.Eventually("it says what it would do", func() error {
		r := h.Ctl("diff", "-o", "name")
		if want := "address/br0/10.40.0.253/24\naddress/br0/10.40.0.254/24\ninterface/a\ninterface/b\ninterface/br0\ninterface/tap0\ninterface/tap1\ninterface/tap2\nroute/lan\n"; r.Out != want || r.Code != 1 {
			return same(want, r.Out)
		}
		return nil
	})
	if r := h.Ctl("unfreeze"); r.Code != 2 || !strings.Contains(r.Err, "start it without --shadow") {
		t.Errorf("unfreeze: %s%s", r.Out, r.Err)
	}
	if r := h.Ctl("status"); !strings.Contains(r.Out, "this agent is a shadow") {
		t.Errorf("status: %s", r.Out)
	}
	if n := h.KernelWrites(); n != 0 {
		t.Errorf("a shadow wrote %d times to the kernel", n)
	}
	h.Stop()
	h.Args = nil
	h.Start()
	h.AwaitConfigured("interface/tap1", "interface/tap2", "interface/br0", "route/lan")
	h.AwaitSettled()
	if r := h.Ctl("diff"); r.Code != 0 {
		t.Errorf("diff: %s%s", r.Out, r.Err)
	}
}
