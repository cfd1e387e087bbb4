package api

import (
	"context"
	"errors"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/resources"
	"github.com/plumb-net/plumb/plugins/resources/cgroup"
	"github.com/plumb-net/plumb/plugins/resources/disk"
)

// Resources implements the service.
func (s *Server) Resources(_ context.Context, r *apiv1.ResourcesRequest) (*apiv1.ResourcesResponse, error) {
	if s.Config.Resources == nil || s.Config.Containers == nil {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("what containers use is not sampled: the setting resources is off"))
	}
	all, err := s.Config.Containers.Containers()
	out := &apiv1.ResourcesResponse{Unknown: text(err)}
	if r.Id == "" {
		out.Containers = latests(s.Config.Resources.Latest())
		if r.All {
			cgroups, leftOut := s.Config.Resources.Machine()
			out.Cgroups, out.CgroupsLeftOut = latests(cgroups), uint32(leftOut)
		}
		return out, nil
	}
	key := r.Id
	if !strings.HasPrefix(key, "/") {
		keys, err := pick(all, r.Id)
		if err != nil {
			return nil, err
		}
		key = keys[0]
	}
	d, ok := s.Config.Resources.Detail(key)
	switch {
	case !ok && strings.HasPrefix(key, "/"):
		return nil, notFound("nothing is known of the cgroup %s: there is none, it is deeper than resources-depth, or it is a container's, which is asked for by its name", key)
	case !ok:
		return nil, notFound("nothing is known of what %s used: it has not run since the agent started, or long ago", r.Id)
	}
	one := latest(d.Latest)
	one.Cgroups, one.CgroupsLeftOut = latests(d.Within), uint32(d.LeftOut)
	one.Minute, one.Hour, one.Day = summary(d.Minute), summary(d.Hour), summary(d.Day)
	for _, x := range d.Recent {
		one.Recent = append(one.Recent, sample(x))
	}
	out.Containers = append(out.Containers, one)
	return out, nil
}

func latests(all []resources.Latest) (out []*apiv1.ContainerResources) {
	for _, l := range all {
		out = append(out, latest(l))
	}
	return out
}

func latest(l resources.Latest) *apiv1.ContainerResources {
	out := &apiv1.ContainerResources{
		Runtime: l.Container.GetRuntime(), ContainerId: l.Container.GetContainerId(), Name: l.Container.GetName(), Image: l.Container.GetImage(),
		Cgroup: l.Cgroup, Start: timestamp(l.Start), End: timestamp(l.End), Samples: l.Samples, Unread: l.Unread,
		Limits: &apiv1.ResourceLimits{
			CpuQuotaUs: micros(l.Limits.CPUQuota), CpuPeriodUs: micros(l.Limits.CPUPeriod), CpuShares: l.Limits.CPUShares, Cpus: l.Limits.CPUs,
			Memory: l.Limits.Memory, Swap: l.Limits.Swap, MemoryReserved: l.Limits.Reserved, MemoryBound: l.MemoryBound, Pids: l.Limits.Pids,
		},
	}
	if l.Last != nil {
		out.Last = sample(l.Last)
	}
	for _, u := range l.Filesystems {
		out.Filesystems = append(out.Filesystems, filesystem(u))
	}
	if r := l.Rates; r != nil {
		out.Rates = &apiv1.ResourceRates{CpuNanoCores: r.CPU, ThrottledPercent: r.Throttled, Receive: r.Receive, Transmit: r.Transmit, Read: r.Read, Write: r.Write}
	}
	return out
}

func sample(x *resources.Sample) *apiv1.ResourceSample {
	out := &apiv1.ResourceSample{
		Time: timestamp(x.Time), Pids: x.Pids,
		CpuPressure: stall(x.Pressure.CPU), MemoryPressure: stall(x.Pressure.Memory), IoPressure: stall(x.Pressure.IO),
	}
	if c := x.CPU; c != nil {
		out.Cpu = &apiv1.ResourceCPU{
			UsageNs: uint64(c.Usage), UserNs: uint64(c.User), SystemNs: uint64(c.System),
			Periods: c.Periods, Throttled: c.Throttled, ThrottledNs: uint64(c.ThrottledTime),
		}
	}
	if m := x.Memory; m != nil {
		out.Memory = &apiv1.ResourceMemory{
			Usage: m.Usage, WorkingSet: m.WorkingSet, Rss: m.RSS, Cache: m.Cache, Mapped: m.Mapped, Swap: m.Swap, Peak: m.Peak,
			Failures: m.Failures, OomKills: m.OOMKills, PageFaults: m.PageFaults, MajorFaults: m.MajorFaults,
		}
	}
	for _, d := range x.IO {
		out.Devices = append(out.Devices, &apiv1.ResourceDevice{
			Device: d.Device, ReadBytes: d.ReadBytes, WriteBytes: d.WriteBytes, Reads: d.ReadCount, Writes: d.WriteCount,
		})
	}
	for _, i := range x.Interfaces {
		out.Interfaces = append(out.Interfaces, &apiv1.ResourceInterface{
			Name:         i.Name,
			ReceiveBytes: i.ReceiveBytes, ReceivePackets: i.ReceivePackets, ReceiveErrors: i.ReceiveErrors, ReceiveDropped: i.ReceiveDropped,
			TransmitBytes: i.TransmitBytes, TransmitPackets: i.TransmitPackets, TransmitErrors: i.TransmitErrors, TransmitDropped: i.TransmitDropped,
		})
	}
	return out
}

func filesystem(u disk.Usage) *apiv1.ResourceFilesystem {
	return &apiv1.ResourceFilesystem{
		Device: u.Device, Mounted: u.Point, Type: u.Type, Capacity: u.Capacity, Used: u.Used,
		Inodes: u.Inodes, InodesFree: u.InodesFree, InodesUsed: u.InodesUsed, AtLeast: u.AtLeast,
	}
}

func stall(s *cgroup.Stall) *apiv1.ResourceStall {
	if s == nil {
		return nil
	}
	return &apiv1.ResourceStall{SomeUs: micros(s.Some), FullUs: micros(s.Full)}
}

func summary(s resources.Summary) *apiv1.ResourceSummary {
	return &apiv1.ResourceSummary{CpuNanoCores: distribution(s.CPU), Memory: distribution(s.Memory)}
}

func distribution(d resources.Distribution) *apiv1.Distribution {
	return &apiv1.Distribution{Mean: d.Mean, Max: d.Max, P50: d.P50, P90: d.P90, P95: d.P95}
}

func micros(d time.Duration) uint64 { return uint64(d.Microseconds()) }
