package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestKillsAreNoErrors: that a container is killed, stopped or removed is no failure of
// ours, and is none in the history.
func TestKillsAreNoErrors(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true})
	h.Start()
	for i := range 3 {
		h.Put(fmt.Sprint("interface/in", i), fmt.Sprintf(`{"namespace":{"microservice":"web%d"},"host_name":"eth1","veth":{"peer":"out%d"},"addresses":["10.61.%d.2/24"]}`, i, i, i))
		h.Put(fmt.Sprint("interface/out", i), fmt.Sprintf(`{"veth":{"peer":"in%d"},"addresses":["10.61.%d.1/24"]}`, i, i))
		h.Put(fmt.Sprint("route/r", i), fmt.Sprintf(`{"interface":"in%d","destination":"10.9%d.0.0/16","gateway":"10.61.%d.1"}`, i, i, i))
	}
	h.Put("interface/br", `{"bridge":{},"addresses":["10.70.0.1/24"]}`)
	for i := range 3 {
		in := fmt.Sprintf(`"namespace":{"microservice":"web%d"}`, i)
		h.Put(fmt.Sprint("interface/mv", i), fmt.Sprintf(`{%s,"macvlan":{"parent":"br"},"addresses":["10.70.0.1%d/24"]}`, in, i))
		h.Put(fmt.Sprint("interface/tap", i), fmt.Sprintf(`{%s,"tap":{},"addresses":["10.71.0.1%d/24"]}`, in, i))
		h.Put(fmt.Sprint("interface/lo", i), fmt.Sprintf(`{%s,"loopback":{},"addresses":["10.72.0.1%d/32"]}`, in, i))
		h.Put(fmt.Sprint("sysctl/fwd", i), fmt.Sprintf(`{%s,"key":"net.ipv4.ip_forward","value":"1"}`, in))
		h.Put(fmt.Sprint("sysctl/dev", i), fmt.Sprintf(`{"interface":"in%d","key":"net.ipv4.conf.IFNAME.rp_filter","value":"2"}`, i))
		h.Put(fmt.Sprint("nftables/fw", i), fmt.Sprintf(`{%s,"family":"inet","chains":[{"name":"in","type":"filter","hook":"input","rules":["accept"]}]}`, in))
		h.Put(fmt.Sprint("address/more", i), fmt.Sprintf(`{"interface":"in%d","address":"10.73.0.%d/24"}`, i, i+1))
		for j := range 10 {
			h.Put(fmt.Sprintf("route/m%d-%d", i, j), fmt.Sprintf(`{"interface":"in%d","destination":"10.10%d.%d.0/24","gateway":"10.61.%d.1"}`, i, i, j, i))
		}
	}
	for i := range 3 {
		h.Run(fmt.Sprint("web", i))
	}
	for i := range 3 {
		h.AwaitConfigured(fmt.Sprint("route/r", i))
	}
	for range 4 {
		for i, args := range [][]string{{"kill"}, {"stop", "-t", "0"}, {"rm", "-f"}} {
			h.Docker(append(args, h.ContainerName(fmt.Sprint("web", i)))...)
		}
		h.AwaitSettled()
		for i := range 2 {
			h.Docker("start", h.ContainerName(fmt.Sprint("web", i)))
		}
		h.Run("web2")
		for i := range 3 {
			h.AwaitConfigured(fmt.Sprint("route/r", i))
		}
	}
	var records []struct {
		Done []struct {
			Op, Key, Error string
			Lapsed         bool
		}
	}
	if err := json.Unmarshal([]byte(h.MustCtl("history", "-o", "json")), &records); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		for _, d := range r.Done {
			if d.Error != "" && !d.Lapsed {
				t.Errorf("%s %s: %s", d.Op, d.Key, d.Error)
			}
		}
	}
}
