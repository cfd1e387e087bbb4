package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/plumb-net/plumb/agent"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

var fleetSizes = flag.String("fleet", "10,100", "how many agents BenchmarkFleet runs, one size after the other")

const (
	// fleetOf makes the test binary that many agents.
	fleetOf = "PLUMB_BENCH_FLEET"
	// changesPerSecond is how fast single changes follow each other.
	changesPerSecond = 20
	// rest is how long a fleet is watched that has nothing to do.
	rest = 20 * time.Second
	// partition is for how long no agent reaches etcd: longer than their leases last.
	partition = 15 * time.Second
)

// BenchmarkFleet runs many agents, each with a kernel in memory, on one real etcd, and
// measures what they cost, how soon a change has arrived, and what the end of a partition does.
// The agents share a process, and with etcd and the benchmark they share the processors. They
// reach etcd through a proxy, which can be cut.
//
//	go test ./tests/bench -run '^$' -bench Fleet -benchtime 1x -timeout 60m -fleet 10,100,1000
func BenchmarkFleet(b *testing.B) {
	for size := range strings.SplitSeq(*fleetSizes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			b.Fatalf("-fleet %s: want numbers, separated by commas", *fleetSizes)
		}
		b.Run(size, func(b *testing.B) {
			for b.Loop() {
				newFleet(b, n).measure()
			}
		})
	}
}

// fleet is many agents and their etcd.
type fleet struct {
	b      *testing.B
	n      int
	url    string
	client *clientv3.Client
	proxy  *etcdtest.Proxy
	pid    int

	mu        sync.Mutex
	converged map[string]int64 // of each agent, the revision and when it was told
	at        map[string]time.Time
	moved     chan struct{}
}

func newFleet(b *testing.B, n int) *fleet {
	b.Helper()
	server := etcdtest.Start(b)
	f := &fleet{b: b, n: n, url: server.URL(), proxy: etcdtest.StartProxy(b, server.Addr()), converged: map[string]int64{}, at: map[string]time.Time{}, moved: make(chan struct{}, 1)}
	var err error
	if f.client, err = clientv3.New(clientv3.Config{Endpoints: []string{f.url}, Logger: zap.NewNop()}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.client.Close() })
	return f
}

func member(i int) string { return fmt.Sprintf("f%04d", i) }

// keysEach is how many keys each agent has: namespaces, cables into them with addresses, and
// a route for each.
const keysEach = 2 + 3*10 + 1

func fleetIntent(label string) (ops []clientv3.Op) {
	put := func(key, value string) {
		ops = append(ops, clientv3.OpPut("/plumb/"+label+"/config/"+key, value))
	}
	put("netns/blue", `{}`)
	put("netns/green", `{}`)
	put("interface/br0", `{"bridge":{},"addresses":["10.0.0.1/16"]}`)
	for i := range 10 {
		where := []string{"blue", "green"}[i%2]
		put(fmt.Sprintf("interface/p%d", i), fmt.Sprintf(`{"veth":{"peer":"w%d"},"master":"br0"}`, i))
		put(fmt.Sprintf("interface/w%d", i), fmt.Sprintf(`{"namespace":{"netns":%q},"host_name":"eth%d","veth":{"peer":"p%d"},"addresses":["10.0.1.%d/16"]}`, where, i, i, i))
		put(fmt.Sprintf("route/r%d", i), fmt.Sprintf(`{"interface":"w%d","destination":"10.%d.0.0/16","gateway":"10.0.0.1"}`, i, i+10))
	}
	return ops
}

// commit writes a transaction and returns its revision.
func (f *fleet) commit(ops ...clientv3.Op) int64 {
	f.b.Helper()
	r, err := f.client.Txn(context.Background()).Then(ops...).Commit()
	if err != nil {
		f.b.Fatal(err)
	}
	return r.Header.Revision
}

func (f *fleet) measure() {
	revisions := make([]int64, f.n)
	for i := range f.n {
		revisions[i] = f.commit(fleetIntent(member(i))...)
	}
	f.watch()
	began := time.Now()
	f.start()
	f.arrived("start", revisions)
	start := time.Since(began)

	time.Sleep(12 * time.Second) // the first summaries are written
	before, beganAt := f.usage(), time.Now()
	time.Sleep(rest)
	after, lasted := f.usage(), time.Since(beganAt).Seconds()

	// One change after the other, and one of all agents at once.
	puts := make([]time.Time, f.n)
	tick := time.NewTicker(time.Second / changesPerSecond)
	defer tick.Stop()
	for i := range f.n {
		<-tick.C
		puts[i] = time.Now()
		revisions[i] = f.commit(f.change(i, 1))
	}
	single := f.since(puts, f.arrived("one after the other", revisions))
	time.Sleep(3 * time.Second)
	changed := f.usage()

	var writers sync.WaitGroup
	for i := range f.n {
		puts[i] = time.Now()
		writers.Go(func() {
			r, err := f.client.Do(context.Background(), f.change(i, 2))
			if err != nil {
				f.b.Error(err)
				return
			}
			revisions[i] = r.Put().Header.Revision
		})
	}
	writers.Wait()
	once := f.since(puts, f.arrived("all at once", revisions))
	f.configured()

	// All lose etcd, and with it their leases; each has a change when it is back.
	f.proxy.Cut()
	for i := range f.n {
		revisions[i] = f.commit(f.change(i, 3))
	}
	time.Sleep(partition)
	cut := f.usage()
	f.proxy.Mend()
	for i := range puts {
		puts[i] = time.Now()
	}
	healed := f.since(puts, f.arrived("after the partition", revisions))
	time.Sleep(3 * time.Second)
	whole := f.usage()

	for name, value := range map[string]float64{
		"start-s":           start.Seconds(),
		"MB/agent":          after.memory / 1e6 / float64(f.n),
		"etcd-MB":           after.etcdMemory / 1e6,
		"rest-writes/s":     float64(after.revision-before.revision) / lasted,
		"rest-%core":        100 * (after.cpu - before.cpu) / lasted,
		"rest-etcd-%core":   100 * (after.etcdCPU - before.etcdCPU) / lasted,
		"writes/change":     float64(changed.revision-after.revision)/float64(f.n) - 1,
		"single-p50-ms":     ms(quantile(single, 50)),
		"single-p99-ms":     ms(quantile(single, 99)),
		"at-once-p50-ms":    ms(quantile(once, 50)),
		"at-once-p99-ms":    ms(quantile(once, 99)),
		"at-once-changes/s": float64(f.n) / quantile(once, 100).Seconds(),
		"heal-p50-ms":       ms(quantile(healed, 50)),
		"heal-last-ms":      ms(quantile(healed, 100)),
		"heal-writes/agent": float64(whole.revision-cut.revision) / float64(f.n),
		"keys":              float64(f.n * keysEach),
		"ns/op":             0,
	} {
		f.b.ReportMetric(value, name)
	}
}

// change is another value of a route of an agent.
func (f *fleet) change(i, metric int) clientv3.Op {
	return clientv3.OpPut("/plumb/"+member(i)+"/config/route/r0", fmt.Sprintf(`{"interface":"w0","destination":"10.10.0.0/16","gateway":"10.0.0.1","metric":%d}`, metric))
}

// watch follows what agents tell of how far they are.
func (f *fleet) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	stream := f.client.Watch(ctx, "/plumb/", clientv3.WithPrefix())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for r := range stream {
			now := time.Now()
			f.mu.Lock()
			for _, ev := range r.Events {
				label, is := strings.CutSuffix(strings.TrimPrefix(string(ev.Kv.Key), "/plumb/"), "/converged")
				var v struct{ Revision int64 }
				if is && json.Unmarshal(ev.Kv.Value, &v) == nil {
					f.converged[label], f.at[label] = v.Revision, now
				}
			}
			f.mu.Unlock()
			select {
			case f.moved <- struct{}{}:
			default:
			}
		}
	}()
	f.b.Cleanup(func() { cancel(); <-done })
}

// arrived waits until every agent has carried its revision out, and returns when each told so.
func (f *fleet) arrived(what string, revisions []int64) []time.Time {
	f.b.Helper()
	at, limit := make([]time.Time, f.n), time.After(10*time.Minute)
	for missing := f.n; ; {
		f.mu.Lock()
		for i, rev := range revisions {
			if at[i].IsZero() && f.converged[member(i)] >= rev {
				at[i] = f.at[member(i)]
				missing--
			}
		}
		f.mu.Unlock()
		if missing == 0 {
			return at
		}
		select {
		case <-f.moved:
		case <-limit:
			f.b.Fatalf("%s: %d of %d agents have not converged", what, missing, f.n)
		}
	}
}

func (f *fleet) since(puts, ends []time.Time) (list []time.Duration) {
	for i := range puts {
		list = append(list, ends[i].Sub(puts[i]))
	}
	return list
}

// configured checks that what was written last is what the agents have.
func (f *fleet) configured() {
	f.b.Helper()
	netlinktest.Eventually(f.b, "all routes are configured", func() bool {
		for i := range f.n {
			r, err := f.client.Get(context.Background(), "/plumb/"+member(i)+"/status/route/r0")
			if err != nil || r.Count != 1 || !strings.Contains(string(r.Kvs[0].Value), `"configured"`) {
				return false
			}
		}
		return true
	})
}

// start runs the agents until the benchmark ends.
func (f *fleet) start() {
	f.b.Helper()
	self, err := os.Executable()
	if err != nil {
		f.b.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pf-") // short: sockets have short paths
	if err != nil {
		f.b.Fatal(err)
	}
	f.b.Cleanup(func() { os.RemoveAll(dir) })
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fleetOf+"="+strconv.Itoa(f.n), "PLUMB_BENCH_FLEET_DIR="+dir, "PLUMB_ETCD="+f.proxy.URL())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		f.b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.b.Fatal(err)
	}
	f.pid = cmd.Process.Pid
	f.b.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			f.b.Errorf("the agents: %v", err)
		}
	})
}

// beFleet is many agents in one process, until its input ends.
func beFleet() error {
	n, err := strconv.Atoi(os.Getenv(fleetOf))
	if err != nil {
		return err
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		files.Cur, files.Max = max(files.Cur, 1<<19), max(files.Max, 1<<19)
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files) // it says itself when they do not suffice
	}
	ctx, stop := context.WithCancel(context.Background())
	var agents sync.WaitGroup
	errs := make(chan error, n)
	for i := range n {
		c := agent.Default()
		dir := filepath.Join(os.Getenv("PLUMB_BENCH_FLEET_DIR"), strconv.Itoa(i))
		c.Label, c.RunDir, c.StateDir, c.Etcd = member(i), dir+"/run", dir+"/state", []string{os.Getenv("PLUMB_ETCD")}
		c.Docker, c.Containerd, c.CRI, c.Resources, c.LogLevel = "off", "off", "off", "off", "error"
		if err := os.MkdirAll(dir, 0o700); err != nil {
			stop()
			return err
		}
		agents.Go(func() {
			if err := agent.RunOn(ctx, c, kerneltest.New(kerneltest.Options{}), slog.NewTextHandler(os.Stderr, nil)); err != nil {
				errs <- fmt.Errorf("%s: %w", c.Label, err)
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	agents.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// usage is what has been used so far.
type usage struct {
	revision                         int64
	memory, cpu, etcdMemory, etcdCPU float64
}

func (f *fleet) usage() (u usage) {
	f.b.Helper()
	r, err := f.client.Get(context.Background(), "revision")
	if err != nil {
		f.b.Fatal(err)
	}
	u.revision = r.Header.Revision
	u.memory, u.cpu = processUsage(f.b, f.pid)
	answer, err := http.Get(f.url + "/metrics")
	if err != nil {
		f.b.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		f.b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch v, _ := strconv.ParseFloat(value, 64); name {
		case "process_resident_memory_bytes":
			u.etcdMemory = v
		case "process_cpu_seconds_total":
			u.etcdCPU = v
		}
	}
	return u
}

// processUsage is the memory of a process in bytes, and its processor time in seconds.
func processUsage(b *testing.B, pid int) (memory, cpu float64) {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, is := strings.CutPrefix(line, "VmRSS:"); is {
			kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			memory = kib * 1024
		}
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	for _, ticks := range fields[11:13] { // utime, stime; 100 in a second
		t, _ := strconv.ParseFloat(ticks, 64)
		cpu += t / 100
	}
	return memory, cpu
}
