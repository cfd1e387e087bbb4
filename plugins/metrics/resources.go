package metrics

import (
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plumb-net/plumb/plugins/resources"
	"github.com/plumb-net/plumb/plugins/resources/cgroup"
	"github.com/plumb-net/plumb/plugins/resources/disk"
)

// usage shows what containers and other cgroups use, under the names and with the labels that cAdvisor made
// usual, so that dashboards which were made for it work.
type usage struct {
	latest func() []resources.Latest
}

// usageLabels are on all of these metrics, beside their own, with the labels of containers
// that they come from. All that a container is labelled with would be too many series, and
// anybody's.
var usageLabels = []struct{ name, from string }{
	{"id", ""}, {"name", ""}, {"image", ""},
	{"container", "io.kubernetes.container.name"},
	{"pod", "io.kubernetes.pod.name"},
	{"namespace", "io.kubernetes.pod.namespace"},
	{"container_label_com_docker_compose_project", "com.docker.compose.project"},
	{"container_label_com_docker_compose_service", "com.docker.compose.service"},
	{"container_label_com_docker_swarm_service_name", "com.docker.swarm.service.name"},
}

// Describe implements prometheus.Collector: the figures are not checked.
func (u usage) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (u usage) Collect(out chan<- prometheus.Metric) {
	// Two of the same would spoil the page for all. Containers have cgroups of their own,
	// but a runtime could say otherwise.
	told := map[[3]string]bool{}
	of := &usagePage{out: out, descs: map[string]*prometheus.Desc{}, devices: map[string]string{}}
	for _, l := range u.latest() {
		who := [3]string{l.Cgroup, l.Container.GetName(), l.Container.GetImage()}
		if l.Last == nil || told[who] {
			continue
		}
		told[who] = true
		if l.Cgroup == "/" {
			machine(out, l)
		}
		for _, d := range l.Last.IO {
			if of.devices[d.Device] == "" {
				of.devices[d.Device] = disk.DeviceFile(d.Device)
			}
		}
		newUsed(l, of).all(l)
	}
}

// machine sends what the machine has.
func machine(out chan<- prometheus.Metric, l resources.Latest) {
	send := func(name, help string, v uint64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, float64(v))
	}
	send("machine_cpu_cores", "Processors of the machine.", processors(l.Limits.CPUs))
	send("machine_memory_bytes", "Memory of the machine.", l.MemoryBound)
}

// processors is how many a list as "0-3,7" has; without one it is those that we may use.
func processors(list string) (n uint64) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, several := strings.Cut(part, "-")
		if !several {
			last = first
		}
		a, errA := strconv.ParseUint(first, 10, 16)
		b, errB := strconv.ParseUint(last, 10, 16)
		if errA != nil || errB != nil || b < a {
			return uint64(runtime.NumCPU())
		}
		n += b - a + 1
	}
	return n
}

// usagePage is what the metrics of all containers have in common.
type usagePage struct {
	out     chan<- prometheus.Metric
	descs   map[string]*prometheus.Desc // by name
	devices map[string]string           // the names of their files, by their numbers
}

// used sends the metrics of one container.
type used struct {
	*usagePage
	labels, values []string
}

func newUsed(l resources.Latest, p *usagePage) *used {
	u := &used{usagePage: p, values: []string{l.Cgroup, l.Container.GetName(), l.Container.GetImage()}}
	for _, label := range usageLabels {
		u.labels = append(u.labels, label.name)
		if label.from != "" {
			u.values = append(u.values, l.Container.GetLabels()[label.from])
		}
	}
	return u
}

// send sends a figure; more are labels of its own and their values, in turn.
func (u *used) send(kind prometheus.ValueType, name, help string, v float64, more ...string) {
	labels, values := u.labels[:len(u.labels):len(u.labels)], u.values[:len(u.values):len(u.values)]
	for i := 0; i < len(more); i += 2 {
		labels, values = append(labels, more[i]), append(values, more[i+1])
	}
	if u.descs[name] == nil {
		u.descs[name] = prometheus.NewDesc("container_"+name, help, labels, nil)
	}
	m, err := prometheus.NewConstMetric(u.descs[name], kind, v, values...)
	if err != nil { // a name that is no UTF-8
		return
	}
	u.out <- m
}

func (u *used) count(name, help string, v uint64, more ...string) {
	u.send(prometheus.CounterValue, name, help, float64(v), more...)
}

func (u *used) seconds(name, help string, v time.Duration, more ...string) {
	u.send(prometheus.CounterValue, name, help, v.Seconds(), more...)
}

func (u *used) gauge(name, help string, v uint64, more ...string) {
	u.send(prometheus.GaugeValue, name, help, float64(v), more...)
}

func (u *used) all(l resources.Latest) {
	u.send(prometheus.GaugeValue, "last_seen", "When the container was sampled last, in seconds since 1970.", float64(l.Last.Time.Unix()))
	if l.Container != nil {
		u.send(prometheus.GaugeValue, "start_time_seconds", "When the container started, in seconds since 1970.", float64(l.Start.Unix()))
	}
	u.limits(l.Limits)
	if l.Last.CPU != nil {
		u.cpu(l.Last.CPU, l.Limits)
	}
	if l.Last.Memory != nil {
		u.memory(l.Last.Memory)
	}
	if l.Last.Pids != nil {
		u.gauge("threads", "Processes and threads.", *l.Last.Pids)
	}
	for _, d := range l.Last.IO {
		file := u.devices[d.Device]
		u.count("fs_reads_bytes_total", "Bytes read from devices.", d.ReadBytes, "device", file)
		u.count("fs_reads_total", "Reads from devices.", d.ReadCount, "device", file)
		u.count("fs_writes_bytes_total", "Bytes written to devices.", d.WriteBytes, "device", file)
		u.count("fs_writes_total", "Writes to devices.", d.WriteCount, "device", file)
	}
	for _, f := range l.Filesystems {
		u.gauge("fs_limit_bytes", "Size of the file system.", f.Capacity, "device", f.Device)
		u.gauge("fs_usage_bytes", "Bytes that are taken of the file system.", f.Used, "device", f.Device)
		u.gauge("fs_inodes_total", "Inodes that the file system can have.", f.Inodes, "device", f.Device)
		u.gauge("fs_inodes_free", "Inodes that are free in the file system.", f.InodesFree, "device", f.Device)
	}
	for _, i := range l.Last.Interfaces {
		u.network(i)
	}
	u.pressure("cpu", l.Last.Pressure.CPU)
	u.pressure("memory", l.Last.Pressure.Memory)
	u.pressure("io", l.Last.Pressure.IO)
}

// limits are zero where there are none, but for the quota, which then is not there.
func (u *used) limits(l cgroup.Limits) {
	if l.CPUQuota > 0 {
		u.gauge("spec_cpu_quota", "Microseconds of processor time in each period.", uint64(l.CPUQuota.Microseconds()))
	}
	u.gauge("spec_cpu_period", "Period of the quota, in microseconds.", uint64(l.CPUPeriod.Microseconds()))
	u.gauge("spec_cpu_shares", "Weight against other containers.", l.CPUShares)
	u.gauge("spec_memory_limit_bytes", "Limit of memory, 0 for none.", l.Memory)
	u.gauge("spec_memory_swap_limit_bytes", "Limit of swap, 0 for none.", l.Swap)
	u.gauge("spec_memory_reservation_limit_bytes", "Memory that is kept when others want it, 0 for none.", l.Reserved)
	u.gauge("threads_max", "Limit of processes and threads, 0 for none.", l.Pids)
}

func (u *used) cpu(c *cgroup.CPU, l cgroup.Limits) {
	u.seconds("cpu_usage_seconds_total", "Processor time used.", c.Usage, "cpu", "total")
	u.seconds("cpu_user_seconds_total", "Processor time used in programs.", c.User)
	u.seconds("cpu_system_seconds_total", "Processor time used in the kernel.", c.System)
	if l.CPUQuota > 0 {
		u.count("cpu_cfs_periods_total", "Periods of the quota.", c.Periods)
		u.count("cpu_cfs_throttled_periods_total", "Periods in which the quota was used up.", c.Throttled)
		u.seconds("cpu_cfs_throttled_seconds_total", "Time for which the quota was used up.", c.ThrottledTime)
	}
}

func (u *used) memory(m *cgroup.Memory) {
	u.gauge("memory_usage_bytes", "Memory used, with pages of files.", m.Usage)
	u.gauge("memory_working_set_bytes", "Memory used, without pages of files that were not used lately.", m.WorkingSet)
	u.gauge("memory_rss", "Anonymous memory.", m.RSS)
	u.gauge("memory_cache", "Memory with pages of files.", m.Cache)
	u.gauge("memory_mapped_file", "Memory with pages of files that are mapped.", m.Mapped)
	u.gauge("memory_swap", "Swap used, in bytes.", m.Swap)
	if m.Peak > 0 {
		u.gauge("memory_max_usage_bytes", "Most memory used so far.", m.Peak)
	}
	u.count("memory_failcnt", "How often the limit was met.", m.Failures)
	for _, scope := range []string{"container", "hierarchy"} { // what is below a container is the container
		u.count("memory_failures_total", "Page faults.", m.PageFaults, "failure_type", "pgfault", "scope", scope)
		u.count("memory_failures_total", "Page faults.", m.MajorFaults, "failure_type", "pgmajfault", "scope", scope)
	}
	u.count("oom_events_total", "Processes killed for want of memory.", m.OOMKills)
}

func (u *used) network(i cgroup.Interface) {
	for _, way := range []struct {
		name, help                      string
		bytes, packets, errors, dropped uint64
	}{
		{"receive", "received", i.ReceiveBytes, i.ReceivePackets, i.ReceiveErrors, i.ReceiveDropped},
		{"transmit", "sent", i.TransmitBytes, i.TransmitPackets, i.TransmitErrors, i.TransmitDropped},
	} {
		u.count("network_"+way.name+"_bytes_total", "Bytes "+way.help+".", way.bytes, "interface", i.Name)
		u.count("network_"+way.name+"_packets_total", "Packets "+way.help+".", way.packets, "interface", i.Name)
		u.count("network_"+way.name+"_errors_total", "Packets that could not be "+way.help+".", way.errors, "interface", i.Name)
		u.count("network_"+way.name+"_packets_dropped_total", "Packets dropped that were to be "+way.help+".", way.dropped, "interface", i.Name)
	}
}

func (u *used) pressure(of string, s *cgroup.Stall) {
	if s == nil {
		return
	}
	u.seconds("pressure_"+of+"_waiting_seconds_total", "Time for which some processes waited for "+of+".", s.Some)
	u.seconds("pressure_"+of+"_stalled_seconds_total", "Time for which all processes waited for "+of+".", s.Full)
}
