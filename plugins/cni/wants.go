package cni

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// Want is one value that a call asks for.
type Want struct {
	Key   string
	Value proto.Message
}

// attach is what one attachment wants besides what its network does: addresses, a
// cable out of the container, routes, settings, and ports of the host.
func (n network) attach(c Call) ([]Want, *spec.Error) {
	n.ways.without = c.without
	rt, wrong := c.runtime()
	if wrong != nil {
		return nil, wrong
	}
	id := digest(c.Key().String())
	inside := n.inside(c)
	outside := inside + "-host"
	list, wants, wrong := n.addresses(inside, rt)
	if wrong != nil {
		return nil, wrong
	}
	in := &models.Interface{
		Namespace: &models.Namespace{In: &models.Namespace_Path{Path: c.Netns}}, HostName: c.IfName, Mtu: n.mtu, MacAddress: macOf(rt.Mac, id), SetOnce: theirs,
		Link: &models.Interface_Veth{Veth: &models.Veth{Peer: outside}}}
	for _, a := range list {
		in.Addresses = append(in.Addresses, a.name)
	}
	out := &models.Interface{HostName: linkOf(inside), Mtu: n.mtu, Link: &models.Interface_Veth{Veth: &models.Veth{Peer: inside}}}
	var routes []Want
	if n.mode == modeRouted {
		routes, wrong = n.routed(inside, outside, list, out)
	} else {
		routes, wrong = n.bridged(inside, list, out)
	}
	if wrong != nil {
		return nil, wrong
	}
	wants = append(wants, Want{models.InterfaceKey(inside), in}, Want{models.InterfaceKey(outside), out})
	wants = append(wants, routes...)
	wants = append(wants, settings(c, inside)...)
	wants = append(wants, n.ports(id, outside, list, rt.Ports)...)
	return wants, check(wants)
}

// theirs are what plugins after this one, and the container itself, may change of its end
// of the cable. Nobody tells us that they did: what is known is that it is not drift.
var theirs = []string{"mac_address", "mtu", "master"}

// inside is the name of the container's end of the cable.
func (n network) inside(c Call) string { return n.name + ":" + digest(c.Key().String()) }

// settings are those of the container's network that the configuration names.
func settings(c Call, inside string) (wants []Want) {
	for i, key := range slices.Sorted(maps.Keys(c.Network.Sysctl)) {
		v := &models.Sysctl{Key: key, Value: c.Network.Sysctl[key]}
		if strings.Contains(key, models.IfName) {
			v.Interface = inside
		} else {
			v.Namespace = &models.Namespace{In: &models.Namespace_Path{Path: c.Netns}}
		}
		wants = append(wants, Want{models.SysctlKey(numbered(inside, i)), v})
	}
	return wants
}

// check refuses what no value of ours can be.
func check(wants []Want) *spec.Error {
	for _, w := range wants {
		if err := models.Validate(w.Key, w.Value); err != nil {
			return invalid("%s: %v", w.Key, err)
		}
	}
	return nil
}

// invalid refuses a configuration that says what cannot be.
func invalid(format string, args ...any) *spec.Error {
	return &spec.Error{Code: spec.BadConfig, Msg: "invalid network configuration", Details: fmt.Sprintf(format, args...)}
}

// unsupported refuses what is not there yet, before anything is touched.
func unsupported(field, format string, args ...any) *spec.Error {
	return &spec.Error{Code: spec.Unsupported, Msg: "unsupported field", Details: field + ": " + fmt.Sprintf(format, args...)}
}

// numbered names the first, second and so on of several.
func numbered(name string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, i+1)
}

// digest is a short name for a long one.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:digestLen/2])
}

const digestLen = 16

// macOf is the hardware address that was asked for, or one made of the name: it is
// in the result before the kernel could have chosen one.
func macOf(asked, id string) string {
	if asked != "" {
		return asked
	}
	mac := "02"
	for i := 0; i < 10; i += 2 {
		mac += ":" + id[i:i+2]
	}
	return mac
}

// keysOf are the keys of wants.
func keysOf(wants []Want) []string {
	keys := make([]string, len(wants))
	for i, w := range wants {
		keys[i] = w.Key
	}
	slices.Sort(keys)
	return keys
}
