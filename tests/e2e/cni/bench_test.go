package cni

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// BenchmarkADD calls plugins for many containers at once, without a runtime: plumb-cni,
// and turn and turn about the plugins bridge and host-local.
func BenchmarkADD(b *testing.B) {
	n := newNode(b, host.Options{Fast: true})
	n.gauge()
	n.host.Start()
	took := map[string][]time.Duration{}
	for range b.N {
		for _, plugin := range []string{"bridge", "ours"} {
			n.calls(plugin, *sandboxes)
			for _, m := range n.measured() {
				if m.Error != "" {
					b.Errorf("%s by %s: %s", m.Command, m.Plugin, m.Error)
				} else if m.Command == "ADD" {
					took[plugin] = append(took[plugin], m.Call+m.Ping)
				}
			}
		}
	}
	if b.Failed() {
		return
	}
	for _, q := range []int{50, 99} {
		ours, bridge := quantile(took["ours"], q), quantile(took["bridge"], q)
		b.ReportMetric(float64(ours.Microseconds())/1e3, fmt.Sprintf("ms-p%d", q))
		b.ReportMetric(float64(ours)/float64(bridge), fmt.Sprintf("x-bridge-p%d", q))
	}
}

// calls makes an ADD for so many namespaces at once, and then a DEL for all.
func (n *node) calls(plugin string, count int) {
	n.t.Helper()
	spaces := make([]*netlinktest.Namespace, count)
	for i := range spaces {
		spaces[i] = netlinktest.New(n.t)
	}
	config := strings.Replace(n.gauged(), "{", fmt.Sprintf(`{"cniVersion": "0.4.0", "name": %q, `, n.Network()), 1)
	for _, command := range []string{"ADD", "DEL"} {
		var all sync.WaitGroup
		for i, ns := range spaces {
			all.Go(func() {
				cmd := exec.Command("nsenter", "--net="+n.NetnsPath(), "--", n.Plugins()+"/gauge")
				cmd.Env = append(os.Environ(), "CNI_COMMAND="+command, fmt.Sprintf("CNI_CONTAINERID=%s%d", plugin, i), "CNI_NETNS="+ns.Path,
					"CNI_IFNAME=eth0", "CNI_PATH="+n.Plugins(), fmt.Sprintf("CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAME=%s-%d", plugin, i))
				cmd.Stdin = strings.NewReader(config)
				if out, err := cmd.CombinedOutput(); err != nil {
					n.t.Errorf("%s %d by %s: %v\n%s", command, i, plugin, err, out)
				}
			})
		}
		all.Wait()
	}
}
