package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// containerStats shows what one container, or another cgroup, uses.
func (c *cli) containerStats(ctx context.Context, id string) error {
	out, err := c.agent().Resources(ctx, &apiv1.ResourcesRequest{Id: id})
	if err != nil {
		return err
	}
	x := out.Containers[0]
	return c.show(answer{
		json:  jsonObject(x),
		names: []string{resourcesKey(x)},
		table: func(w io.Writer, wide bool) {
			writeStats(w, x)
			if len(x.Cgroups) > 0 {
				fmt.Fprintln(w)
				writeTop(w, "CGROUP", x.Cgroups, wide)
			}
			writeLeftOut(w, x.CgroupsLeftOut)
		},
	})
}

// writeStats shows all that is kept of a container but its samples.
func writeStats(w io.Writer, x *apiv1.ContainerResources) {
	t := newTable("cgroup", x.Cgroup)
	if x.ContainerId != "" {
		t = newTable("container", resourcesKey(x))
	}
	add := func(name string, facts ...string) {
		facts = said(facts)
		if len(facts) > 0 {
			t.add(name, strings.Join(facts, ", "))
		}
	}
	add("name", x.Name)
	add("image", x.Image)
	if x.ContainerId != "" {
		add("cgroup", x.Cgroup)
	}
	add("started", timeOf(x.Start))
	add("ended", timeOf(x.End))
	add("samples", fmt.Sprint(x.Samples), x.Unread)
	add("cpu", cpuFacts(x)...)
	add("memory", memoryFacts(x)...)
	if x.Last.GetPids() > 0 {
		add("pids", fmt.Sprint(x.Last.GetPids())+ofLimit(x.Limits.GetPids(), func(n uint64) string { return fmt.Sprint(n) }))
	}
	for _, p := range []struct {
		name string
		*apiv1.ResourceStall
	}{{"cpu", x.Last.GetCpuPressure()}, {"memory", x.Last.GetMemoryPressure()}, {"io", x.Last.GetIoPressure()}} {
		if p.ResourceStall != nil {
			add("waited for "+p.name, micros(p.SomeUs)+" some, "+micros(p.FullUs)+" all")
		}
	}
	for _, d := range x.Last.GetDevices() {
		add("device "+d.Device, fmt.Sprintf("read %s in %d, wrote %s in %d", bytesText(d.ReadBytes), d.Reads, bytesText(d.WriteBytes), d.Writes))
	}
	for _, f := range x.Filesystems {
		add(filesystemName(f), atLeast(f)+bytesText(f.Used)+" of "+bytesText(f.Capacity), fmt.Sprintf("%d inodes", f.InodesUsed)+ofLimit(f.Inodes, func(n uint64) string { return fmt.Sprint(n) }))
	}
	for _, i := range x.Last.GetInterfaces() {
		add("interface "+i.Name, "received "+traffic(i.ReceiveBytes, i.ReceivePackets, i.ReceiveErrors, i.ReceiveDropped),
			"sent "+traffic(i.TransmitBytes, i.TransmitPackets, i.TransmitErrors, i.TransmitDropped))
	}
	t.write(w, false)
	if x.Minute.GetMemory().GetMax() == 0 && x.Day.GetMemory().GetMax() == 0 {
		return // there were no two samples
	}
	fmt.Fprintln(w)
	t = newTable("OVER A", "OF", "MEAN", "P50", "P90", "P95", "MAX")
	for _, s := range []struct {
		name string
		*apiv1.ResourceSummary
	}{{"minute", x.Minute}, {"hour", x.Hour}, {"day", x.Day}} {
		row := func(of string, d *apiv1.Distribution, show func(uint64) string) {
			t.add(s.name, of, show(d.GetMean()), show(d.GetP50()), show(d.GetP90()), show(d.GetP95()), show(d.GetMax()))
		}
		row("cpu", s.GetCpuNanoCores(), cpuText)
		row("memory", s.GetMemory(), bytesText)
	}
	t.write(w, false)
}

func filesystemName(f *apiv1.ResourceFilesystem) string {
	if f.Mounted != "" {
		return "files in " + f.Mounted
	}
	return "files on " + f.Device
}

func atLeast(f *apiv1.ResourceFilesystem) string {
	if f.AtLeast {
		return "at least "
	}
	return ""
}

// said are the facts that there are.
func said(facts []string) (out []string) {
	for _, f := range facts {
		if f != "" {
			out = append(out, f)
		}
	}
	return out
}

func cpuFacts(x *apiv1.ContainerResources) (facts []string) {
	l, cpu := x.Limits, x.Last.GetCpu()
	if x.Rates != nil {
		facts = append(facts, cpuText(x.Rates.CpuNanoCores))
	}
	if cpu != nil {
		facts = append(facts, time.Duration(cpu.UsageNs).Round(time.Millisecond).String()+" in all")
	}
	if l.GetCpuQuotaUs() > 0 && l.GetCpuPeriodUs() > 0 {
		facts = append(facts, "at most "+cpuText(l.CpuQuotaUs*1e9/l.CpuPeriodUs),
			fmt.Sprintf("throttled in %d of %d periods", cpu.GetThrottled(), cpu.GetPeriods()))
	}
	if l.GetCpus() != "" {
		facts = append(facts, "on processors "+l.Cpus)
	}
	return facts
}

func memoryFacts(x *apiv1.ContainerResources) []string {
	m := x.Last.GetMemory()
	if m == nil {
		return nil
	}
	facts := []string{bytesText(m.WorkingSet) + " working set" + ofLimit(x.Limits.GetMemoryBound(), bytesText), bytesText(m.Rss) + " rss", bytesText(m.Cache) + " cache"}
	for _, f := range []struct {
		n    uint64
		text string
	}{{m.Swap, bytesText(m.Swap) + " swap"}, {m.Failures, fmt.Sprintf("limit met %d times", m.Failures)}, {m.OomKills, plural(int(m.OomKills), "process") + " killed"}} {
		if f.n > 0 {
			facts = append(facts, f.text)
		}
	}
	return facts
}

// ofLimit says of which limit something is.
func ofLimit(limit uint64, show func(uint64) string) string {
	if limit == 0 {
		return ""
	}
	return " of " + show(limit)
}

func traffic(bytes, packets, errors, dropped uint64) string {
	text := fmt.Sprintf("%s in %d packets", bytesText(bytes), packets)
	if errors+dropped > 0 {
		text += fmt.Sprintf(" (%d errors, %d dropped)", errors, dropped)
	}
	return text
}

// cpuText is a share of one processor.
func cpuText(nanoCores uint64) string { return fmt.Sprintf("%.1f%%", float64(nanoCores)/1e7) }

// bytesText is a number of bytes, as large as it can be told with a digit before the point.
func bytesText(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	v, unit := float64(n)/1024, 0
	for ; v >= 1023.95 && unit < 5; unit++ {
		v /= 1024
	}
	return fmt.Sprintf("%.1f%ciB", v, "KMGTPE"[unit])
}

func micros(n uint64) string {
	return (time.Duration(n) * time.Microsecond).Round(time.Millisecond).String()
}

func timeOf(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Format(time.RFC3339)
}
