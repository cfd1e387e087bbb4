package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/resources"
	"github.com/plumb-net/plumb/plugins/resources/cgroup"
	"github.com/plumb-net/plumb/plugins/resources/disk"
)

// someUse is what containers use: of one all is known, of the other nothing; and another cgroup.
func someUse() []resources.Latest {
	pids := uint64(12)
	all := []resources.Latest{
		{Key: "docker:bb", Container: &models.Container{Name: "unread"}, Unread: "it has no cgroup of its own"},
		{
			Key: "docker:aa", Cgroup: "/docker/aa", Start: time.Unix(1000, 0), Samples: 2,
			Container: &models.Container{Name: "web", Image: "nginx:1", Labels: map[string]string{"com.docker.compose.service": "front", "secret": "x"}},
			Limits:    cgroup.Limits{CPUQuota: 50 * time.Millisecond, CPUPeriod: 100 * time.Millisecond, CPUShares: 1024, Memory: 1 << 28, Pids: 100},
			Last: &resources.Sample{
				Time: time.Unix(2000, 0),
				Stats: cgroup.Stats{
					CPU:    &cgroup.CPU{Usage: 2500 * time.Millisecond, Periods: 40, Throttled: 7, ThrottledTime: time.Second},
					Memory: &cgroup.Memory{Usage: 100, WorkingSet: 80, RSS: 50, Cache: 30, Failures: 9, OOMKills: 1, PageFaults: 77, Peak: 120},
					Pids:   &pids, IO: []cgroup.DeviceIO{{Device: "4095:7", ReadBytes: 90112, ReadCount: 4}},
					Pressure: cgroup.Pressure{CPU: &cgroup.Stall{Some: 1500 * time.Millisecond}, Memory: &cgroup.Stall{}, IO: &cgroup.Stall{}},
				},
				Interfaces: []cgroup.Interface{{Name: "eth0", ReceiveBytes: 1500, TransmitDropped: 3}},
			},
		},
	}
	slice := resources.Latest{Key: "/system.slice", Cgroup: "/system.slice", Last: &resources.Sample{Time: time.Unix(2000, 0), Stats: cgroup.Stats{Pids: &pids}}}
	machine := resources.Latest{
		Key: "/", Cgroup: "/", Last: &resources.Sample{Time: time.Unix(2000, 0)}, MemoryBound: 1 << 30, Limits: cgroup.Limits{CPUs: "0-3,7"},
		Filesystems: []disk.Usage{{Device: "/dev/sda1", Capacity: 1000, Used: 400, Inodes: 50, InodesFree: 20}},
	}
	return append(all, all[1], slice, machine) // one twice, which Prometheus would not take
}

// TestUsage: what containers use has the names and labels that cAdvisor gives it.
func TestUsage(t *testing.T) {
	text := page(t)
	const labels = `{container="",container_label_com_docker_compose_project="",container_label_com_docker_compose_service="front",container_label_com_docker_swarm_service_name="",`
	const rest = `id="/docker/aa",image="nginx:1",`
	const end = `name="web",namespace="",pod=""`
	for _, want := range []string{
		"container_cpu_usage_seconds_total" + labels + `cpu="total",` + rest + end + "} 2.5",
		"container_cpu_cfs_throttled_periods_total" + labels + rest + end + "} 7",
		"container_memory_working_set_bytes" + labels + rest + end + "} 80",
		"container_memory_failcnt" + labels + rest + end + "} 9",
		"container_memory_failures_total" + labels + `failure_type="pgfault",` + rest + end + `,scope="hierarchy"} 77`,
		"container_spec_memory_limit_bytes" + labels + rest + end + "} 2.68435456e+08",
		"container_spec_cpu_quota" + labels + rest + end + "} 50000",
		"container_network_receive_bytes_total" + labels + rest + `interface="eth0",` + end + "} 1500",
		"container_network_transmit_packets_dropped_total" + labels + rest + `interface="eth0",` + end + "} 3",
		"container_fs_reads_bytes_total" + labels + `device="4095:7",` + rest + end + "} 90112",
		"container_pressure_cpu_waiting_seconds_total" + labels + rest + end + "} 1.5",
		"container_last_seen" + labels + rest + end + "} 2000",
		"container_start_time_seconds" + labels + rest + end + "} 1000",
		"container_threads" + strings.Replace(labels, "front", "", 1) + `id="/system.slice",image="",name="",namespace="",pod=""} 12`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	for _, want := range []string{
		`container_fs_usage_bytes` + strings.Replace(labels, "front", "", 1) + `device="/dev/sda1",id="/",image="",name="",namespace="",pod=""} 400`,
		"machine_cpu_cores 5", "machine_memory_bytes 1.073741824e+09",
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	for _, no := range []string{`name="unread"`, "secret"} {
		if strings.Contains(text, no) {
			t.Errorf("%s is there", no)
		}
	}
}

// BenchmarkUsage measures what a scrape of 200 containers costs, without the reading.
func BenchmarkUsage(b *testing.B) {
	one := someUse()[1]
	var all []resources.Latest
	for i := range 200 {
		one.Cgroup = fmt.Sprint("/docker/", i)
		all = append(all, one)
	}
	r := prometheus.NewRegistry()
	r.MustRegister(usage{func() []resources.Latest { return all }})
	h := promhttp.HandlerFor(r, promhttp.HandlerOpts{})
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		b.ReportMetric(float64(w.Body.Len()), "bytes")
	}
}
