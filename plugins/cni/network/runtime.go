package network

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// Runtime is what a runtime adds for one container.
type Runtime struct {
	IPs   []string    `json:"ips"`
	Mac   string      `json:"mac"`
	DNS   *runtimeDNS `json:"dns"`
	Ports []Port      `json:"portMappings"`
	// Requested are the limits that the runtime requests, and Bandwidth those that count.
	Requested *spec.Bandwidth `json:"bandwidth"`
	Bandwidth spec.Bandwidth  `json:"-"`

	source string // of IPs, for errors
}

// runtimeDNS is DNS as runtimes spell it.
type runtimeDNS struct {
	Servers  []string `json:"servers"`
	Searches []string `json:"searches"`
	Options  []string `json:"options"`
}

// decodeRuntime reads what a runtime adds, and refuses what cannot be served: somebody
// has declared that it can.
func decodeRuntime(c spec.Config) (rt Runtime, wrong *spec.Error) {
	rt.source = "runtimeConfig.ips"
	if len(c.RuntimeConfig) == 0 {
		return rt, nil
	}
	var all map[string]json.RawMessage
	err := json.Unmarshal(c.RuntimeConfig, &all)
	if err == nil {
		err = json.Unmarshal(c.RuntimeConfig, &rt)
	}
	if err != nil {
		return rt, &spec.Error{Code: spec.BadJSON, Msg: "runtimeConfig cannot be decoded", Details: err.Error()}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch {
		case name == "ips", name == "mac", name == "dns", name == "portMappings", name == "bandwidth", slices.Contains([]string{"null", "{}", "[]", `""`}, string(all[name])):
		default:
			return rt, spec.NotSupported("runtimeConfig."+name, "plumb-cni has no such capability; do not declare it")
		}
	}
	for i := range rt.Ports {
		if wrong := rt.Ports[i].check(i); wrong != nil {
			return rt, wrong
		}
	}
	return rt, nil
}

// Resolver is what a resolver is told: the runtime's word, or else the network's, or that
// of the plugin that gave the addresses.
func (rt Runtime) Resolver(conf spec.Config, ipam *spec.Result) *spec.DNS {
	if d := rt.DNS; d != nil && len(d.Servers)+len(d.Searches)+len(d.Options) > 0 {
		return &spec.DNS{Nameservers: d.Servers, Search: d.Searches, Options: d.Options}
	}
	if conf.DNS == nil && ipam != nil {
		return ipam.DNS
	}
	return conf.DNS
}
