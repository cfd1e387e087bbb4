package network

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// fields are the keys of a configuration: those of [spec.Config], and those that runtimes
// and their libraries read.
var fields = func() []string {
	known := []string{"cniVersions", "capabilities", "disableCheck", "disableGC", "loadOnlyInlinedPlugins"}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[spec.Config]()) {
		if key := f.Tag.Get("json"); key != "" && key != "-" {
			known = append(known, key)
		}
	}
	return known
}()

// isField reports whether a key is read. Like encoding/json it ignores the case of letters.
func isField(name string) bool {
	return slices.ContainsFunc(fields, func(f string) bool { return strings.EqualFold(f, name) })
}

// instead maps keys of other plugins to their counterparts here.
var instead = map[string]string{
	"ipMasq":           "masquerade: true does that",
	"ipMasqBackend":    "masquerade uses nftables",
	"isGateway":        "the bridge always has the gateway's address; remove it",
	"isDefaultGateway": "default_route: yes does that",
	"linkInContainer":  "the other links of an attachment are always the host's; remove it",
	"enabledad":        "addresses of a pool are unique; remove it",
	"ranges":           "pool takes a network",
	"subnet":           "pool takes a network",

	"vlanId":       "vlan is the identifier; in mode vlan",
	"promiscMode":  "plumb-cni has no counterpart; hairpinMode: true lets a container reach itself by the bridge",
	"forceAddress": "plumb-cni has no counterpart; the gateway's address is the pool's",
	"device":       "plumb-cni does not move devices; mode macvlan with linkMode: passthru gives a container a device of its own",
	"bcqueuelen":   "plumb-cni has no counterpart",
}

// CheckKeys refuses a configuration with a key that plumb-cni does not have: ignored, it
// would promise something that no attachment gets. Keys with a dot or a slash are those of
// runtimes (cni.dev/...).
func CheckKeys(config []byte) *spec.Error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(config, &all); err != nil {
		return &spec.Error{Code: spec.BadJSON, Msg: "the configuration cannot be decoded", Details: err.Error()}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if isField(name) || strings.ContainsAny(name, "./") {
			continue
		}
		if hint := instead[name]; hint != "" {
			return spec.NotSupported(name, "%s", hint)
		}
		hint := "see docs/cni.md for the keys of plumb-cni"
		if near := models.Nearest(name, fields); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		return spec.NotSupported(name, "plumb-cni has no such key; %s", hint)
	}
	return nil
}
