package network

import (
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

// Endpoint is the interface of one container that is to be attached.
type Endpoint struct {
	ID            string // see [ID]
	IfName, Netns string
	Inode         uint64 // of the namespace at Netns: nothing is made in another's
	Runtime       Runtime
	Sysctl        map[string]string
	// Without are the families of which it gets no default route.
	Without []string
}

// useAtOnce disables the detection of duplicates for the addresses of an interface. It takes up to two
// seconds, and the addresses of a pool are unique.
func useAtOnce(v *models.Interface) {
	if len(v.GetAddresses()) > 0 {
		v.DuplicateDetection = "none"
	}
}

// Attach returns the values of one attachment besides those of its network: the interface of the container with
// addresses, routes and settings. In the modes bridge and routed these include the host end of the veth pair, filters and
// ports.
func (n Network) Attach(e Endpoint) ([]Want, *spec.Error) {
	n.ways.without = e.Without
	inside := n.Inside(e.ID)
	list, wants, wrong := n.addresses(inside, e.Runtime)
	if wrong != nil {
		return nil, wrong
	}
	in := &models.Interface{
		Namespace: e.namespace(), HostName: e.IfName, Mtu: n.mtu, MacAddress: macOf(e.Runtime.Mac, e.ID), SetOnce: theirs}
	for _, a := range list {
		in.Addresses = append(in.Addresses, a.name)
	}
	useAtOnce(in)
	attach := n.cabled
	if n.stacks() {
		attach = n.stacked
	}
	more, wrong := attach(e, inside, in, list)
	if wrong != nil {
		return nil, wrong
	}
	limits, wrong := n.limits(e.Runtime.Bandwidth, inside)
	if wrong != nil {
		return nil, wrong
	}
	wants = append(wants, Want{models.InterfaceKey(inside), in})
	wants = append(wants, more...)
	wants = append(wants, limits...)
	wants = append(wants, e.settings(inside)...)
	return wants, check(wants)
}

// cabled makes in one end of a veth pair that connects a container to the bridge or to the host, and returns the other
// values of the pair.
func (n Network) cabled(e Endpoint, inside string, in *models.Interface, list []address) (wants []Want, wrong *spec.Error) {
	outside := outsideOf(inside)
	in.Link = &models.Interface_Veth{Veth: &models.Veth{Peer: outside}}
	out := &models.Interface{HostName: HostEnd(inside), Mtu: n.mtu, Link: &models.Interface_Veth{Veth: &models.Veth{Peer: inside}}}
	var routes []Want
	if n.Mode == ModeRouted {
		routes, wrong = n.routed(inside, outside, list, out)
	} else {
		routes, wrong = n.bridged(inside, list, out)
	}
	wants = append(wants, Want{models.InterfaceKey(outside), out})
	wants = append(wants, routes...)
	wants = append(wants, n.sources(e.ID, out.HostName, in.MacAddress, list)...)
	return append(wants, n.ports(e.ID, outside, list, e.Runtime.Ports)...), wrong
}

// theirs are what plugins after this one, and the container itself, may change of its end
// of the cable. Nobody tells us that they did: what is known is that it is not drift.
var theirs = []string{"mac_address", "mtu", "master"}

// Inside is the logical name of the container's end of the cable.
func (n Network) Inside(id string) string { return n.Name + ":" + id }

// outsideOf returns the logical name of the host end of the cable.
func outsideOf(inside string) string { return inside + "-host" }

// namespace is that of the container.
func (e Endpoint) namespace() *models.Namespace {
	return &models.Namespace{In: &models.Namespace_Path{Path: e.Netns}, Inode: e.Inode}
}

// settings are those of the container's network that the configuration names.
func (e Endpoint) settings(inside string) (wants []Want) {
	for i, key := range slices.Sorted(maps.Keys(e.Sysctl)) {
		v := &models.Sysctl{Key: key, Value: e.Sysctl[key]}
		if strings.Contains(key, models.IfName) {
			v.Interface = inside
		} else {
			v.Namespace = e.namespace()
		}
		wants = append(wants, Want{models.SysctlKey(Numbered(inside, i)), v})
	}
	return wants
}

// check refuses what no value of ours can be.
func check(wants []Want) *spec.Error {
	for _, w := range wants {
		if err := models.Validate(w.Key, w.Value); err != nil {
			return spec.Invalid("%s: %v", w.Key, err)
		}
	}
	return nil
}

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
