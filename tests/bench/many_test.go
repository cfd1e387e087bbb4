package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// BenchmarkMany applies one file of 50,000 routes with agentctl, to the last one
// configured, and then lists them. The floor does the same work without an agent: `ip
// -batch` and, in the same store, the same values in transactions of the same size.
func BenchmarkMany(b *testing.B) {
	const n = 50_000
	h := newHost(b)
	ctl := h.agentctl()
	wanted := manyRoutes(n)
	file := h.file(wanted)
	before, peak := h.memory(), 0
	var apply, floor, get []time.Duration
	for range b.N {
		apply = append(apply, ctl("apply", "-f", file, "--chunked", "--wait"))
		if got := strings.Count(h.Run(b, "ip", "route"), "via 192.168.0.2"); got != n {
			b.Fatalf("%d of %d routes are there", got, n)
		}
		get = append(get, ctl("get", "route"))
		if peak == 0 { // of an agent that has only just started
			peak = h.memory() - before
		}
		h.told("route/", n) // or the store is busy with that
		floor = append(floor, h.plainly(wanted))
		h.write(clientv3.OpDelete(config("route/"), clientv3.WithPrefix()))
		ctl("wait", "--all", "--for", "settled")
	}
	b.ReportMetric(ms(median(apply)), "apply-ms")
	b.ReportMetric(ms(median(floor)), "floor-ms")
	b.ReportMetric(ms(median(get)), "get-ms")
	b.ReportMetric(float64(peak)/n, "peak-bytes/key")
	b.ReportMetric(0, "ns/op")
	verdict(b, "50,000 routes, a file to the last one configured", ratio(apply, floor), 2, "× floor")
	verdict(b, "peak memory of the agent for each of them", float64(peak)/n, 4096, "bytes")
	verdict(b, "agentctl get of them", ms(median(get)), 1000, "ms")
}

// agentctl builds the program and returns how to call it, which tells how long a call took.
func (h *host) agentctl() (call func(args ...string) time.Duration) {
	h.b.Helper()
	program := filepath.Join(h.dir, "agentctl")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/plumb-net/plumb/cmd/agentctl").CombinedOutput(); err != nil {
		h.b.Fatalf("%v\n%s", err, out)
	}
	return func(args ...string) time.Duration {
		begin := time.Now()
		out, err := exec.Command(program, append([]string{"--socket", filepath.Join(h.dir, "run", "agent.sock")}, args...)...).CombinedOutput()
		if err != nil {
			h.b.Fatalf("agentctl %v: %v\n%.1000s", args, err, out)
		}
		return time.Since(begin)
	}
}

// file is a file to apply.
func (h *host) file(m many) string {
	h.b.Helper()
	file := filepath.Join(h.dir, "many.yaml")
	if err := os.WriteFile(file, []byte("intent:\n"+m.intent), 0o600); err != nil {
		h.b.Fatal(err)
	}
	return file
}

// many is the same work for the agent and for the plain programs.
type many struct {
	intent, batch string
	puts          []clientv3.Op
}

func manyRoutes(n int) (m many) {
	var intent, batch strings.Builder
	intent.WriteString("  interface/br0:\n    bridge: {}\n    addresses: [192.168.0.1/16]\n")
	batch.WriteString("link add br0 type bridge\nlink set br0 up\naddress add 192.168.0.1/16 dev br0\n")
	for i := range n {
		to := fmt.Sprintf("10.%d.%d.%d/32", i>>16, i>>8&255, i&255)
		fmt.Fprintf(&intent, "  route/r%d:\n    interface: br0\n    destination: %s\n    gateway: 192.168.0.2\n", i, to)
		fmt.Fprintf(&batch, "route add %s via 192.168.0.2 dev br0\n", to)
		m.puts = append(m.puts, clientv3.OpPut(fmt.Sprintf("/floor/route/r%d", i),
			fmt.Sprintf(`{"interface":"br0","destination":"%s","gateway":"192.168.0.2"}`, to)))
	}
	m.intent, m.batch = intent.String(), batch.String()
	return m
}

// plainly does the work in a namespace of its own.
func (h *host) plainly(m many) time.Duration {
	h.b.Helper()
	file := filepath.Join(h.dir, "batch")
	if err := os.WriteFile(file, []byte(m.batch), 0o600); err != nil {
		h.b.Fatal(err)
	}
	ns := netlinktest.New(h.b)
	begin := time.Now()
	for puts := m.puts; len(puts) > 0; {
		n := min(100, len(puts))
		h.write(puts[:n]...)
		puts = puts[n:]
	}
	ns.Run(h.b, "ip", "-batch", file)
	took := time.Since(begin)
	if _, err := h.etcd.Delete(context.Background(), "/floor/", clientv3.WithPrefix()); err != nil {
		h.b.Fatal(err)
	}
	return took
}

// told waits until the agent has written the statuses of so many keys, and of no more.
func (h *host) told(prefix string, n int64) {
	h.b.Helper()
	netlinktest.Eventually(h.b, "all statuses are written", func() bool {
		resp, err := h.etcd.Get(context.Background(), "/plumb/"+label+"/status/"+prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && resp.Count == n
	})
}

var hwm = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// memory is the most that the agent has held so far, in bytes, without its store.
func (h *host) memory() int {
	h.b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.pid))
	if err != nil {
		h.b.Fatal(err)
	}
	kb, err := strconv.Atoi(string(hwm.FindSubmatch(status)[1]))
	if err != nil {
		h.b.Fatal(err)
	}
	return kb << 10
}
