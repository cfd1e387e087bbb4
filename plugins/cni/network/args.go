package network

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// Args are the pairs in CNI_ARGS. Of a name that is there twice the last counts.
func Args(text string) map[string]string {
	args := map[string]string{}
	for arg := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(arg, "=")
		if name = strings.TrimSpace(name); name != "" {
			args[name] = strings.TrimSpace(value)
		}
	}
	return args
}

// ignoresUnknown reports whether whoever calls does not mind pairs that nobody knows.
func ignoresUnknown(args map[string]string) bool {
	v := strings.ToLower(args["IgnoreUnknown"])
	return v == "1" || v == "true"
}

// CheckArgs refuses what CNI_ARGS ask for and nobody would do. A DEL is never refused.
func CheckArgs(text string) *spec.Error {
	args := Args(text)
	for _, name := range slices.Sorted(maps.Keys(args)) {
		known := name == "IgnoreUnknown" || name == "IP" || name == "MAC" || strings.HasPrefix(name, "K8S_POD_")
		if !known && !ignoresUnknown(args) {
			return spec.NotSupported("CNI_ARGS "+name, "plumb-cni knows IP, MAC and K8S_POD_…; with IgnoreUnknown=1 others are let be")
		}
	}
	bad := func(name, is string) *spec.Error {
		return &spec.Error{Code: spec.BadEnv, Msg: "invalid CNI_ARGS", Details: name + ": " + is}
	}
	for _, ip := range listOf(args["IP"]) {
		_, alone := netip.ParseAddr(ip)
		if _, err := netip.ParsePrefix(ip); alone != nil && err != nil {
			return bad("IP", ip+" is no IP address")
		}
	}
	if mac := args["MAC"]; mac != "" {
		if m, err := net.ParseMAC(mac); err != nil || len(m) != 6 || m[0]&1 != 0 {
			return bad("MAC", mac+" is no hardware address of one interface, such as 02:00:00:00:00:07")
		}
	}
	return nil
}

// listOf is a list with commas.
func listOf(text string) (list []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// RuntimeOf is what a runtime adds for one container: by its configuration, or as podman 4
// does by CNI_ARGS, of which counts what the configuration does not say.
func RuntimeOf(conf spec.Config, args string) (Runtime, *spec.Error) {
	rt, wrong := decodeRuntime(conf)
	if wrong != nil {
		return rt, wrong
	}
	said := Args(args)
	rt.source = "runtimeConfig.ips"
	if len(rt.IPs) == 0 && said["IP"] != "" {
		rt.IPs, rt.source = listOf(said["IP"]), "CNI_ARGS IP"
	}
	if rt.Mac == "" && said["MAC"] != "" {
		if m, err := net.ParseMAC(said["MAC"]); err == nil {
			rt.Mac = m.String()
		}
	}
	return rt, nil
}
