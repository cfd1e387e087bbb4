package kernel

import (
	"path"
	"slices"
	"strings"
)

// ifName stands in the place of a setting for the name of a link, as in values.
const ifName = "IFNAME"

// The kernel writes some settings when others are written: net/ipv4/ip_forward is copied to the
// setting forwarding of each link. settingNames and settingWrites list all of them; a test of
// plugins/netlink compares them with the kernel.

// settingNames are the settings that have two names. The value may have another unit under each.
var settingNames = []struct{ other, name string }{
	{"net/ipv4/conf/all/forwarding", "net/ipv4/ip_forward"},
	{"net/*/neigh/*/base_reachable_time", "base_reachable_time_ms"},
	{"net/*/neigh/*/retrans_time", "retrans_time_ms"},
	{"net/*/neigh/*/unres_qlen", "unres_qlen_bytes"},
	{"net/ipv6/route/gc_min_interval", "gc_min_interval_ms"},
	{"net/netfilter/nf_conntrack_max", "net/nf_conntrack_max"},
	{"net/mptcp/pm_type", "path_manager"},
}

// SettingName returns the one name of a setting that has two, and the place itself of any other.
func SettingName(place string) string {
	for _, n := range settingNames {
		if is, _ := path.Match(n.other, place); is {
			if !strings.Contains(n.name, "/") {
				return path.Join(path.Dir(place), n.name)
			}
			return n.name
		}
	}
	return place
}

// SettingWrite says that the kernel writes other settings when one is written.
type SettingWrite struct {
	// Of is the setting that is written, as a pattern of [path.Match]. IFNAME stands for a link.
	Of string
	// To is the setting that the kernel writes. IFNAME stands for the link of Of if that names
	// one, else for each link; * for the last part of Of.
	To string
	// Value returns the value that To gets. nil: that of Of.
	Value func(of string) string
	// Not lists last parts of Of that are excepted.
	Not []string
	// Untouched: only links are written whose setting was never written by itself and that had
	// no IPv4 address since. The kernel does not tell which these are.
	Untouched bool
}

var settingWrites = []SettingWrite{
	{Of: "net/ipv4/ip_forward", To: "net/ipv4/conf/default/forwarding"},
	{Of: "net/ipv4/ip_forward", To: "net/ipv4/conf/IFNAME/forwarding"},
	{Of: "net/ipv4/ip_forward", To: AllRedirects, Value: whereNot},
	{Of: "net/ipv6/conf/all/forwarding", To: "net/ipv6/conf/default/forwarding"},
	{Of: "net/ipv6/conf/all/forwarding", To: "net/ipv6/conf/IFNAME/forwarding"},
	{Of: "net/ipv6/conf/all/disable_ipv6", To: "net/ipv6/conf/default/disable_ipv6"},
	{Of: "net/ipv6/conf/all/disable_ipv6", To: "net/ipv6/conf/IFNAME/disable_ipv6"},
	{Of: "net/ipv6/conf/all/addr_gen_mode", To: "net/ipv6/conf/default/addr_gen_mode"},
	{Of: "net/ipv6/conf/all/addr_gen_mode", To: "net/ipv6/conf/IFNAME/addr_gen_mode"},
	{Of: "net/ipv6/conf/all/ignore_routes_with_linkdown", To: "net/ipv6/conf/default/ignore_routes_with_linkdown"},
	{Of: "net/ipv6/conf/all/ignore_routes_with_linkdown", To: "net/ipv6/conf/IFNAME/ignore_routes_with_linkdown"},
	{Of: "net/ipv6/conf/all/force_forwarding", To: "net/ipv6/conf/IFNAME/force_forwarding"},
	{Of: "net/ipv6/conf/default/stable_secret", To: "net/ipv6/conf/IFNAME/addr_gen_mode", Value: stablePrivacy},
	{Of: "net/ipv6/conf/IFNAME/stable_secret", To: "net/ipv6/conf/IFNAME/addr_gen_mode", Value: stablePrivacy},
	{Of: "net/ipv4/conf/default/*", To: "net/ipv4/conf/IFNAME/*", Untouched: true,
		Not: []string{"forwarding", "disable_policy", "disable_xfrm", "promote_secondaries", "route_localnet"}},
	{Of: "net/ipv4/neigh/default/*", To: "net/ipv4/neigh/IFNAME/*", Untouched: true},
	{Of: "net/ipv6/neigh/default/*", To: "net/ipv6/neigh/IFNAME/*", Untouched: true},
}

// AllRedirects is the setting of IPv4 redirects for all links of a namespace. Where packets are
// not forwarded, a link accepts redirects if this setting or its own allows them. Clearing it
// changes nothing for other links: without forwarding their own setting then decides, and with
// forwarding the kernel itself keeps it 0.
const AllRedirects = "net/ipv4/conf/all/accept_redirects"

func whereNot(of string) string {
	if of == "0" {
		return "1"
	}
	return "0"
}

func stablePrivacy(string) string { return "2" }

// SettingWrites returns what the kernel writes when the setting at a place is written.
func SettingWrites(place string) (list []SettingWrite) {
	name := SettingName(place)
	for _, w := range settingWrites {
		link, is := w.matches(name)
		if !is || slices.Contains(w.Not, path.Base(name)) {
			continue
		}
		w.Of, w.To = place, strings.Replace(w.To, "*", path.Base(place), 1)
		if link != "" {
			w.To = strings.Replace(w.To, ifName, link, 1)
		}
		list = append(list, w)
	}
	return list
}

// matches reports whether the kernel writes other settings with the one at a place, and returns its link.
func (w SettingWrite) matches(place string) (link string, is bool) {
	if is, _ = path.Match(strings.Replace(w.Of, ifName, "*", 1), place); !is || !strings.Contains(w.Of, ifName) {
		return "", is
	}
	link = strings.Split(place, "/")[3]
	return link, link != "all" && link != "default"
}

// Gets returns the value of To where Of has a value.
func (w SettingWrite) Gets(of string) string {
	if w.Value == nil {
		return of
	}
	return w.Value(of)
}

// Places returns the places that are written in a namespace with these links, with the link of each,
// nil if it is of none.
func (w SettingWrite) Places(links []Link) map[string]*Link {
	places := map[string]*Link{}
	if !strings.Contains(w.To, "/"+ifName+"/") {
		places[w.To] = nil
		return places
	}
	for i := range links {
		places[strings.Replace(w.To, ifName, links[i].Name, 1)] = &links[i]
	}
	return places
}
