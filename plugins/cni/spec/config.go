package spec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Config is the configuration of a network as it comes on standard input. Keys of
// others are ignored.
type Config struct {
	CNIVersion    string          `json:"cniVersion"`
	Name          string          `json:"name"`
	Type          string          `json:"type"`
	PrevResult    json.RawMessage `json:"prevResult"`
	RuntimeConfig json.RawMessage `json:"runtimeConfig"`
	IPAM          json.RawMessage `json:"ipam"`
	DNS           *DNS            `json:"dns"`
	// Args are requests for one container that the configuration itself carries.
	Args struct {
		CNI ContainerArgs `json:"cni"`
	} `json:"args"`

	// Socket is where the agent listens. Default [DefaultSocket].
	Socket string `json:"socket"`
	// Mode is one of [Modes]. Default: bridge.
	Mode string `json:"mode"`
	// Link describes the link of an attachment in the modes that use an interface of the intent.
	Link
	// Bridge is the name of the bridge in mode bridge. Default from the network.
	Bridge string `json:"bridge"`
	// Pool is a network in CIDR notation, or the name of an ippool; or one for
	// each family.
	Pool Pools `json:"pool"`
	// Wait is for how many seconds what an operator wants is waited for in mode
	// intent. Default: for as long as the call may take, with a pool ten; after other
	// plugins not at all.
	Wait       *uint32 `json:"wait"`
	Masquerade bool    `json:"masquerade"`
	// Forward lets the packets of the network pass the host's firewall.
	Forward bool   `json:"forward"`
	MTU     uint32 `json:"mtu"`
	// DefaultRoute reports whether the container has a default route by this network:
	// yes, no, or auto (default): if it has none yet.
	DefaultRoute string `json:"default_route"`
	// Routes are further ones of the container. Those that name no metric or table have
	// Metric and Table, and so has the default route.
	Routes []Way  `json:"routes"`
	Metric uint32 `json:"metric"`
	Table  uint32 `json:"table"`
	// PortIsolation keeps containers of the bridge from reaching each other by it.
	PortIsolation bool `json:"portIsolation"`
	// MacSpoofChk drops what a container sends from another hardware address than its own,
	// IPSpoofChk also what it sends from, or announces, another IP address.
	MacSpoofChk bool `json:"macspoofchk"`
	IPSpoofChk  bool `json:"ipspoofchk"`
	// Bandwidth limits what containers receive and send, unless the runtime requests other limits.
	Bandwidth Bandwidth `json:"bandwidth"`
	// Sysctl are settings of the container's network; IFNAME stands for its interface.
	Sysctl map[string]string `json:"sysctl"`

	// Valid are the attachments that GC keeps.
	Valid ValidAttachments `json:"cni.dev/valid-attachments"`
	// ValidToo is how an older draft spelled it.
	ValidToo ValidAttachments `json:"cni.dev/attachments"`
}

// Bandwidth holds limits of one container, as the CNI conventions define them: rates in bits per second, and bursts in
// bits. Ingress is what the container receives. A rate of 0 is no limit; a burst of 0 is chosen by the rate.
type Bandwidth struct {
	IngressRate  uint64 `json:"ingressRate"`
	IngressBurst uint64 `json:"ingressBurst"`
	EgressRate   uint64 `json:"egressRate"`
	EgressBurst  uint64 `json:"egressBurst"`
}

// ContainerArgs are the requests below args.cni, as the CNI conventions define them.
type ContainerArgs struct {
	IPs []string `json:"ips"`
	Mac string   `json:"mac"`
}

// ValidAttachments is the list of a GC call. A runtime without attachments may send null
// instead of an empty list, which is not the same as a configuration without the key.
type ValidAttachments struct {
	Given bool
	List  []Attachment
}

// UnmarshalJSON is called for null too.
func (v *ValidAttachments) UnmarshalJSON(text []byte) error {
	v.Given = true
	return json.Unmarshal(text, &v.List)
}

// HasPorts reports whether the runtime wants ports of the host to lead to the container.
func (c Config) HasPorts() bool {
	var rt struct {
		PortMappings []json.RawMessage `json:"portMappings"`
	}
	return json.Unmarshal(c.RuntimeConfig, &rt) == nil && len(rt.PortMappings) > 0
}

// Pools are written as one string, or as a list.
type Pools []string

// UnmarshalJSON reads either.
func (p *Pools) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*p = nil
		if one != "" {
			*p = Pools{one}
		}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(p))
}

// Attachment is one that GC shall keep.
type Attachment struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifname"`
}

// DefaultSocket is where the agent listens unless the configuration says otherwise.
const DefaultSocket = "/run/plumb/cni.sock"

// MaxConfig bounds a configuration in bytes.
const MaxConfig = 1 << 20

// ParseConfig reads and checks the configuration of a call.
func ParseConfig(command string, data []byte) (Config, *Error) {
	var c Config
	if len(data) > MaxConfig {
		return c, &Error{Code: BadJSON, Msg: "the configuration is too large", Details: fmt.Sprintf("more than %d bytes", MaxConfig)}
	}
	decode := c.decode
	if command == "DEL" {
		decode = c.decodeDEL
	}
	if err := decode(data); err != nil {
		return c, &Error{Code: BadJSON, Msg: "the configuration cannot be decoded", Details: err.Error()}
	}
	if err := checkVersion(command, c.CNIVersion); err != nil {
		return c, err
	}
	if !c.Valid.Given {
		c.Valid = c.ValidToo
	}
	if c.Socket == "" {
		c.Socket = DefaultSocket
	}
	if c.Mode == "ptp" { // as the plugin of the CNI project is called
		c.Mode = "routed"
	}
	err := c.check(command)
	return c, err
}

func (c *Config) decode(data []byte) error { return json.Unmarshal(data, c) }

// decodeDEL reads only the fields that identify an attachment and locate the agent and the
// IPAM plugin. The record of the attachment supplies the rest, so a configuration that was
// edited into an invalid one since the ADD does not keep the container from being removed.
func (c *Config) decodeDEL(data []byte) error {
	var text struct{ CNIVersion, Name, Type, Socket, IPAM json.RawMessage }
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	for _, field := range []struct {
		text json.RawMessage
		to   any
	}{{text.CNIVersion, &c.CNIVersion}, {text.Name, &c.Name}, {text.Type, &c.Type}, {text.Socket, &c.Socket}, {text.IPAM, &c.IPAM}} {
		_ = json.Unmarshal(field.text, field.to) // a field of another type counts as absent
	}
	if !isName(c.Delegate()) {
		c.IPAM = nil
	}
	return nil
}

// Delegate is the plugin that gives the addresses, "" if there is none.
func (c *Config) Delegate() string {
	var ipam struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(c.IPAM, &ipam) // what is no object names none
	return ipam.Type
}

// Layer2 reports whether attachments get no addresses: the ipam section is empty, and there is no pool.
func (c *Config) Layer2() bool { return given(c.IPAM) && !c.delegates() && len(c.Pool) == 0 }

// delegates reports whether the ipam section names a plugin, or should: an empty one does not.
func (c *Config) delegates() bool {
	var fields map[string]json.RawMessage
	return given(c.IPAM) && (json.Unmarshal(c.IPAM, &fields) != nil || len(fields) > 0)
}

func (c *Config) check(command string) *Error {
	bad := func(format string, args ...any) *Error {
		return &Error{Code: BadConfig, Msg: "invalid network configuration", Details: fmt.Sprintf(format, args...)}
	}
	switch {
	case c.Name == "":
		return bad("name is missing")
	case !isName(c.Name):
		return bad("name %q does not match [A-Za-z0-9][A-Za-z0-9_.-]*", c.Name)
	case command == "DEL":
		return nil
	case command == "CHECK" && !given(c.PrevResult):
		return bad("prevResult is missing")
	case command == "GC" && !c.Valid.Given:
		return bad("cni.dev/valid-attachments is missing; nothing is removed")
	case c.Mode != "" && !slices.Contains(Modes, c.Mode):
		return &Error{Code: Unsupported, Msg: "unsupported field", Details: fmt.Sprintf("mode: %q is none of %s", c.Mode, strings.Join(Modes, ", "))}
	case c.delegates() && (c.Delegate() == "" || !isName(c.Delegate())):
		return bad("ipam: type must name a plugin, such as host-local")
	case c.delegates() && len(c.Pool) > 0:
		return bad("ipam: not together with pool; keep one")
	case c.delegates() && c.Mode == "intent":
		return bad("ipam: in mode intent the addresses are the operator's")
	case linkNameError(c.Bridge) != "":
		return bad("bridge: %q %s", c.Bridge, linkNameError(c.Bridge))
	case c.PortIsolation && c.Mode == "routed":
		return bad("portIsolation: in mode routed there is no bridge; containers reach each other by the host alone")
	case (c.PortIsolation || c.MacSpoofChk || c.IPSpoofChk) && c.Mode == "intent":
		return bad("portIsolation, macspoofchk, ipspoofchk: in mode intent the operator writes them, as bridge_port.isolated and values of the kind nftables")
	case c.checkLink() != "":
		return bad("%s", c.checkLink())
	case c.DefaultRoute != "" && c.DefaultRoute != "yes" && c.DefaultRoute != "no" && c.DefaultRoute != "auto":
		return bad("default_route: %q is none of yes, no, auto", c.DefaultRoute)
	}
	for i, w := range c.Routes {
		if wrong := w.check(); wrong != "" {
			return bad("routes[%d].%s", i, wrong)
		}
	}
	if given(c.PrevResult) {
		if _, err := ParseResult(c.PrevResult); err != nil {
			return bad("prevResult: %v", err)
		}
	}
	return nil
}

// given reports whether a value is there and not null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
