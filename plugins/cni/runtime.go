package cni

import (
	"encoding/json"

	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// runtimeConfig is what a runtime adds for one container.
type runtimeConfig struct {
	IPs          []string          `json:"ips"`
	Mac          string            `json:"mac"`
	PortMappings []json.RawMessage `json:"portMappings"`
}

func runtimeOf(c spec.Config) (rt runtimeConfig, wrong *spec.Error) {
	if len(c.RuntimeConfig) == 0 {
		return rt, nil
	}
	if err := json.Unmarshal(c.RuntimeConfig, &rt); err != nil {
		return rt, &spec.Error{Code: spec.BadJSON, Msg: "runtimeConfig cannot be decoded", Details: err.Error()}
	}
	if len(rt.PortMappings) > 0 {
		return rt, unsupported("runtimeConfig.portMappings", "they are not there yet")
	}
	return rt, nil
}
