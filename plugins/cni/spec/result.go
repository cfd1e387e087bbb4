package spec

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
)

// Result is what an ADD has made, as the latest version says it.
type Result struct {
	CNIVersion string      `json:"cniVersion"`
	Interfaces []Interface `json:"interfaces,omitempty"`
	IPs        []IP        `json:"ips,omitempty"`
	Routes     []Route     `json:"routes,omitempty"`
	DNS        *DNS        `json:"dns,omitempty"`
}

// Interface is one that the result speaks of. Sandbox is the network namespace,
// empty for those of the host.
type Interface struct {
	Name       string `json:"name"`
	Mac        string `json:"mac,omitempty"`
	MTU        int    `json:"mtu,omitempty"`
	Sandbox    string `json:"sandbox,omitempty"`
	SocketPath string `json:"socketPath,omitempty"`
	PciID      string `json:"pciID,omitempty"`
}

// IP is an address; Interface is an index into the interfaces.
type IP struct {
	// Version is 4 or 6 before 1.0.0, and not there since.
	Version   string `json:"version,omitempty"`
	Interface *int   `json:"interface,omitempty"`
	Address   string `json:"address"`
	Gateway   string `json:"gateway,omitempty"`
}

// Route is a route inside of the container. All but the first two are of 1.1.0.
type Route struct {
	Dst      string `json:"dst"`
	GW       string `json:"gw,omitempty"`
	MTU      int    `json:"mtu,omitempty"`
	AdvMSS   int    `json:"advmss,omitempty"`
	Priority int    `json:"priority,omitempty"`
	Table    *int   `json:"table,omitempty"`
	Scope    *int   `json:"scope,omitempty"`
}

// DNS is what a resolver is told.
type DNS struct {
	Nameservers []string `json:"nameservers,omitempty"`
	Domain      string   `json:"domain,omitempty"`
	Search      []string `json:"search,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// ParseResult reads a result of any supported version.
func ParseResult(data []byte) (Result, error) {
	var r Result
	if err := json.Unmarshal(data, &r); err != nil {
		return r, err
	}
	if r.CNIVersion != "" && !Supported(r.CNIVersion) {
		return r, fmt.Errorf("cniVersion %s is not supported", r.CNIVersion)
	}
	for i := range r.IPs {
		ip := &r.IPs[i]
		ip.Version = ""
		if _, err := netip.ParsePrefix(ip.Address); err != nil {
			return r, fmt.Errorf("ips[%d]: %w", i, err)
		}
		if ip.Interface != nil && (*ip.Interface < 0 || *ip.Interface >= len(r.Interfaces)) {
			return r, fmt.Errorf("ips[%d]: there is no interface %d", i, *ip.Interface)
		}
	}
	r.CNIVersion = Latest
	return r, nil
}

// Has reports whether there is an address of a family, 4 or 6.
func (r Result) Has(ipVersion int) bool {
	for _, ip := range r.IPs {
		if family(ip.Address) == strconv.Itoa(ipVersion) {
			return true
		}
	}
	return false
}

// As is the result as a version says it; what that cannot say is left out.
func (r Result) As(version string) Result {
	out := Result{CNIVersion: version, DNS: r.DNS}
	if version == Latest {
		r.CNIVersion = version
		return r
	}
	for _, i := range r.Interfaces {
		out.Interfaces = append(out.Interfaces, Interface{Name: i.Name, Mac: i.Mac, Sandbox: i.Sandbox})
	}
	for _, ip := range r.IPs {
		ip.Version = ""
		if !since(version, "1.0.0") {
			ip.Version = family(ip.Address)
		}
		out.IPs = append(out.IPs, ip)
	}
	for _, route := range r.Routes {
		out.Routes = append(out.Routes, Route{Dst: route.Dst, GW: route.GW})
	}
	return out
}

func family(cidr string) string {
	if p, err := netip.ParsePrefix(cidr); err == nil && p.Addr().Is4() {
		return "4"
	}
	return "6"
}
