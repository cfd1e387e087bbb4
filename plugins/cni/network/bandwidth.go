package network

import (
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// Limits of the rate of a token bucket, in kilobits per second, as in the model.
const (
	leastRate = 8
	mostRate  = 400_000_000
)

// bandwidthOf returns the limits of one container, or an error if they are invalid. Limits that the runtime requests replace
// the limits of the network.
func bandwidthOf(conf spec.Config, requested *spec.Bandwidth) (spec.Bandwidth, *spec.Error) {
	b, field := conf.Bandwidth, "bandwidth"
	if requested != nil && *requested != (spec.Bandwidth{}) {
		b, field = *requested, "runtimeConfig.bandwidth"
	}
	for _, one := range []struct {
		name        string
		rate, burst uint64
	}{{"ingress", b.IngressRate, b.IngressBurst}, {"egress", b.EgressRate, b.EgressBurst}} {
		switch {
		case one.rate == 0 && one.burst != 0:
			return b, spec.Invalid("%s.%sBurst: needs %sRate", field, one.name, one.name)
		case one.rate == 0:
		case one.rate < leastRate*1000 || one.rate > mostRate*1000:
			return b, spec.Invalid("%s.%sRate: must be from %d to %d bits per second, not %d", field, one.name, leastRate*1000, uint64(mostRate)*1000, one.rate)
		}
	}
	return b, nil
}

// kilobitsOf converts bits, rounded up.
func kilobitsOf(bits uint64) uint64 { return (bits + 999) / 1000 }

// limits returns the queueing disciplines that limit the bandwidth of a container: at the host end of its cable for received
// packets, and at its own interface for sent packets.
func (n Network) limits(b spec.Bandwidth, inside string) (wants []Want, wrong *spec.Error) {
	if b.IngressRate != 0 {
		if n.stacks() {
			return nil, spec.NotSupported("bandwidth.ingressRate", "the packets that a container receives in mode %s do not pass an interface of the host that is its own; "+
				"egressRate limits what it sends", n.Mode)
		}
		wants = append(wants, limit(outsideOf(inside), b.IngressRate, b.IngressBurst))
	}
	if b.EgressRate != 0 {
		wants = append(wants, limit(inside, b.EgressRate, b.EgressBurst))
	}
	return wants, nil
}

// limit returns a token bucket on an interface. Runtimes of Kubernetes request bursts that are larger than the kernel keeps.
func limit(name string, rate, burst uint64) Want {
	v := &models.Tbf{Rate: uint32(kilobitsOf(rate))}
	if burst != 0 {
		v.Burst = uint32(min(max(burst/8, 1), models.MaxBurst(v.Rate)))
	}
	return Want{models.QdiscKey(name), &models.Qdisc{Interface: name, Discipline: &models.Qdisc_Tbf{Tbf: v}}}
}
