package spec

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// ArgPairs returns the pairs in CNI_ARGS. Of a name that occurs twice the last counts.
func ArgPairs(text string) map[string]string {
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

// CheckArgs refuses pairs in CNI_ARGS that are malformed, or that plumb-cni does not know. It is
// called before the IPAM plugin, so that a refused ADD assigns no address. A DEL is never refused.
func CheckArgs(text string) *Error {
	args := ArgPairs(text)
	for _, name := range slices.Sorted(maps.Keys(args)) {
		known := name == "IgnoreUnknown" || name == "IP" || name == "MAC" || strings.HasPrefix(name, "K8S_POD_")
		if !known && !ignoresUnknown(args) {
			return NotSupported("CNI_ARGS "+name, "plumb-cni knows IP, MAC and K8S_POD_…; with IgnoreUnknown=1 others are let be")
		}
	}
	bad := func(name, is string) *Error {
		return &Error{Code: BadEnv, Msg: "invalid CNI_ARGS", Details: name + ": " + is}
	}
	for _, ip := range SplitList(args["IP"]) {
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

// SplitList returns the parts of a list with commas.
func SplitList(text string) (list []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}
