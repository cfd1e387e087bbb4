package observe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

func TestMain(m *testing.M) { os.Exit(host.Main(m)) }

// dashboards are what well-known public dashboards for cAdvisor ask Prometheus, by their
// names and their numbers at Grafana. "label NAME of QUERY" asks for the choices of a
// variable; a chosen one stands as .* in the queries, as for all.
var dashboards = map[string][]string{
	"Cadvisor exporter, 14282": {
		`label instance of {__name__=~"container.*"}`,
		`label name of {__name__=~"container.*", instance=~".*"}`,
		`sum(rate(container_cpu_usage_seconds_total{instance=~".*",name=~".*",name=~".+"}[5m])) by (name) *100`,
		`sum(container_memory_rss{instance=~".*",name=~".*",name=~".+"}) by (name)`,
		`sum(container_memory_cache{instance=~".*",name=~".*",name=~".+"}) by (name)`,
		`sum(rate(container_network_receive_bytes_total{instance=~".*",name=~".*",name=~".+"}[5m])) by (name)`,
		`sum(rate(container_network_transmit_bytes_total{instance=~".*",name=~".*",name=~".+"}[5m])) by (name)`,
		`(time() - container_start_time_seconds{instance=~".*",name=~".*",name=~".+"})/86400`,
	},
	"Docker monitoring, 193": {
		`count(container_last_seen{image!=""})`,
		`sum(container_memory_usage_bytes{image!=""})/1024/1024`,
		`sum(rate(container_cpu_user_seconds_total{image!=""}[5m]) * 100)`,
		`rate(container_cpu_user_seconds_total{image!=""}[5m]) * 100`,
		`container_memory_usage_bytes{image!=""}`,
		`irate(container_network_receive_bytes_total{image!=""}[5m])`,
		`irate(container_network_transmit_bytes_total{image!=""}[5m])`,
	},
	"Docker and system monitoring, 893, what it asks of containers": {
		`count(rate(container_last_seen{name=~".+"}[5m]))`,
		`sum(rate(container_cpu_usage_seconds_total{name=~".+"}[5m])) by (name) * 100`,
		`sum(container_memory_rss{name=~".+"}) by (name)`,
		`sum(container_memory_swap{name=~".+"}) by (name)`,
		`sum(container_memory_usage_bytes{name=~".+"}) by (name)`,
		`sum(container_spec_memory_limit_bytes{name=~".+"} - container_memory_usage_bytes{name=~".+"}) by (name)`,
		`sum(rate(container_network_receive_bytes_total{name=~".+"}[5m])) by (name)`,
		`sum(rate(container_network_transmit_bytes_total{name=~".+"}[5m])) by (name)`,
	},
	"Kubernetes cluster monitoring, 315": { // but for the name of the device, which is this machine's
		`sum (rate (container_network_receive_bytes_total{kubernetes_io_hostname=~"^.*$"}[1m]))`,
		`- sum (rate (container_network_transmit_bytes_total{kubernetes_io_hostname=~"^.*$"}[1m]))`,
		`sum (container_memory_working_set_bytes{id="/",kubernetes_io_hostname=~"^.*$"}) / sum (machine_memory_bytes{kubernetes_io_hostname=~"^.*$"}) * 100`,
		`sum (rate (container_cpu_usage_seconds_total{id="/",kubernetes_io_hostname=~"^.*$"}[1m])) / sum (machine_cpu_cores{kubernetes_io_hostname=~"^.*$"}) * 100`,
		`sum (container_fs_usage_bytes{device=~"^/dev/.*$",id="/",kubernetes_io_hostname=~"^.*$"}) / sum (container_fs_limit_bytes{device=~"^/dev/.*$",id="/",kubernetes_io_hostname=~"^.*$"}) * 100`,
		`sum (rate (container_cpu_usage_seconds_total{id!="/",kubernetes_io_hostname=~"^.*$"}[1m])) by (id)`,
		`sum (container_memory_working_set_bytes{id!="/",kubernetes_io_hostname=~"^.*$"}) by (id)`,
	},
	"Compute resources of a pod, of the Kubernetes mixin, what it asks of containers": {
		`sum(rate(container_cpu_usage_seconds_total{namespace="shop", pod="web-1", container!="", image!=""}[5m])) by (container)`,
		`sum(increase(container_cpu_cfs_throttled_periods_total{namespace="shop", pod="web-1", container!=""}[5m])) by (container) / sum(increase(container_cpu_cfs_periods_total{namespace="shop", pod="web-1", container!=""}[5m])) by (container)`,
		`sum(container_memory_working_set_bytes{namespace="shop", pod="web-1", container!="", image!=""}) by (container)`,
		`sum(container_memory_rss{namespace="shop", pod="web-1", container != "", image != ""}) by (container)`,
		`sum(irate(container_network_receive_packets_total{namespace="shop", pod=~"web-1"}[5m])) by (pod)`,
		`sum(irate(container_network_transmit_packets_dropped_total{namespace="shop", pod=~"web-1"}[5m])) by (pod)`,
	},
	"Alerts on containers, as they are passed round": {
		`container_memory_working_set_bytes{name!=""} / container_spec_memory_limit_bytes{name!=""} > 0`,
		`sum(rate(container_cpu_usage_seconds_total{container_label_com_docker_compose_service="web"}[5m])) by (name)`,
		`1 - (sum(container_fs_inodes_free{id="/"}) by (instance) / sum(container_fs_inodes_total{id="/"}) by (instance))`,
		`container_fs_usage_bytes{name="shop-web"} / container_fs_limit_bytes{name="shop-web"} > 0`,
		`increase(container_oom_events_total{name=~".+"}[5m])`,
		`container_memory_failcnt{name=~".+"}`,
		`rate(container_memory_failures_total{failure_type="pgmajfault",scope="container",name=~".+"}[5m])`,
		`container_threads{name=~".+"} / container_threads_max{name=~".+"}`,
	},
}

// ofDevices are what these dashboards ask of devices.
var ofDevices = []string{
	`sum(rate(container_fs_reads_bytes_total{name=~".+"}[5m])) by (name)`,
	`sum(rate(container_fs_writes_bytes_total{name=~".+"}[5m])) by (name)`,
	`ceil(sum by(pod) (rate(container_fs_reads_total{device!="", namespace="shop", pod=~"web-1"}[5m]) + rate(container_fs_writes_total{device!="", namespace="shop", pod=~"web-1"}[5m])))`,
}

// TestDashboardsOfCAdvisor: dashboards and alerts that were made for cAdvisor have data,
// from a Prometheus that scrapes an agent with a container of a Docker engine.
func TestDashboardsOfCAdvisor(t *testing.T) {
	h := host.New(t, host.Options{Fast: true})
	h.Start()
	work := "while :; do dd if=/dev/zero of=/file bs=4096 count=64 oflag=direct; dd if=/file of=/dev/null bs=4096 iflag=direct; sleep 0.2; done"
	args := []string{"run", "--detach", "--stop-signal", "KILL", "--name", "shop-web", "--memory", "64m", "--cpus", "0.5", "--pids-limit", "50",
		"--label", "com.docker.compose.service=web", "--label", "io.kubernetes.container.name=web",
		"--label", "io.kubernetes.pod.name=web-1", "--label", "io.kubernetes.pod.namespace=shop"}
	if disk := wholeDisk(t, h.Dir); disk != "" { // in version 1 newer kernels count what is limited alone
		args = append(args, "--device-read-bps", disk+":1gb", "--device-write-bps", disk+":1gb")
	}
	h.Docker(append(args, "plumb-test:1", "sh", "-c", work)...)
	t.Cleanup(func() { h.Docker("rm", "--force", "shop-web") })
	p := prometheus(t, h)
	for name, queries := range dashboards {
		for _, query := range queries {
			h.Eventually(name+": "+query, func() error { return p.hasData(query) })
		}
	}
	if !countsDevices(t, h.Docker("inspect", "--format", "{{.State.Pid}}", "shop-web")) {
		t.Log("the kernel does not count what went to devices")
		return
	}
	for _, query := range ofDevices {
		h.Eventually(query, func() error { return p.hasData(query) })
	}
}

// wholeDisk is the file of the disk that a directory is on; "" if it is on none, or on a
// part of one, which cannot be limited.
func wholeDisk(t *testing.T, dir string) string {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	at, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", st.Dev>>8&0xfff, st.Dev&0xff))
	if err != nil {
		return ""
	}
	if _, err := os.Stat("/sys/block/" + filepath.Base(at)); err != nil {
		return ""
	}
	return "/dev/" + filepath.Base(at)
}

// countsDevices reports whether the kernel tells what a process read from devices.
func countsDevices(t *testing.T, pid string) bool {
	t.Helper()
	cgroups, err := os.ReadFile("/proc/" + pid + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(cgroups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, file := range []string{"/sys/fs/cgroup/blkio" + parts[2] + "/blkio.throttle.io_service_bytes_recursive", "/sys/fs/cgroup" + parts[2] + "/io.stat"} {
			text, err := os.ReadFile(file)
			if err == nil && (strings.Contains(string(text), " Read ") || strings.Contains(string(text), " rbytes=")) {
				return true
			}
		}
	}
	return false
}

// server is the URL of a Prometheus.
type server string

// prometheus starts one that scrapes the agent each second.
func prometheus(t *testing.T, h *host.Host) server {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal("prometheus is missing: .ci/prepare")
	default:
		t.Skip("prometheus is missing: .ci/prepare")
	}
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		page, err := h.HTTP("/metrics")
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		io.WriteString(w, page)
	}))
	t.Cleanup(metrics.Close)
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: plumb\n    static_configs: [{targets: [%q]}]\n", strings.TrimPrefix(metrics.URL, "http://"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := free.Addr().String()
	free.Close()
	var said bytes.Buffer
	cmd := exec.Command(path, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", listen)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	p := server("http://" + listen)
	h.Eventually("Prometheus scrapes the agent", func() error { return p.hasData(`up == 1`) })
	return p
}

// hasData asks a query, or for the values of a label, and fails if there is nothing.
func (p server) hasData(query string) error {
	page := "/api/v1/query?query=" + url.QueryEscape(query)
	if name, match, ok := strings.Cut(strings.TrimPrefix(query, "label "), " of "); ok {
		page = "/api/v1/label/" + name + "/values?match[]=" + url.QueryEscape(match)
	}
	resp, err := http.Get(string(p) + page)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var out struct {
		Error string
		Data  json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || out.Error != "" {
		return fmt.Errorf("%s: %v %s", resp.Status, err, out.Error)
	}
	var found struct{ Result []json.RawMessage }
	if json.Unmarshal(out.Data, &found.Result) != nil {
		if err := json.Unmarshal(out.Data, &found); err != nil {
			return err
		}
	}
	if len(found.Result) == 0 {
		return fmt.Errorf("no data")
	}
	return nil
}
