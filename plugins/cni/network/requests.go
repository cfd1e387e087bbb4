package network

import (
	"net"

	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// RuntimeOf returns the requests for one container. For each field the first of these sources
// that has it counts: runtimeConfig, args.cni of the configuration, and CNI_ARGS, which
// podman 4 uses.
func RuntimeOf(conf spec.Config, args string) (Runtime, *spec.Error) {
	rt, wrong := decodeRuntime(conf)
	if wrong != nil {
		return rt, wrong
	}
	if rt.Bandwidth, wrong = bandwidthOf(conf, rt.Requested); wrong != nil {
		return rt, wrong
	}
	env := spec.ArgPairs(args)
	for _, from := range []struct {
		ipsFrom string
		ips     []string
		macFrom string
		mac     string
	}{
		{"args.cni.ips", conf.Args.CNI.IPs, "args.cni.mac", conf.Args.CNI.Mac},
		{"CNI_ARGS IP", spec.SplitList(env["IP"]), "CNI_ARGS MAC", env["MAC"]},
	} {
		if len(rt.IPs) == 0 && len(from.ips) > 0 {
			rt.IPs, rt.source = from.ips, from.ipsFrom
		}
		if rt.Mac == "" && from.mac != "" {
			m, err := net.ParseMAC(from.mac)
			if err != nil || len(m) != 6 || m[0]&1 != 0 {
				return rt, spec.Invalid("%s: %q is no hardware address of one interface, such as 02:00:00:00:00:07", from.macFrom, from.mac)
			}
			rt.Mac = m.String()
		}
	}
	return rt, nil
}
