package kerneltest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// The settings that there are, with what they are at first. Those below conf/ exist for all,
// default, and each link.
var (
	settings = map[string]string{
		"net/ipv4/ip_forward": "0", "net/core/somaxconn": "4096", "net/ipv4/ip_unprivileged_port_start": "1024",
		"net/ipv4/ip_default_ttl": "64", "net/ipv4/tcp_retries2": "15", "net/ipv4/tcp_rmem": "4096\t131072\t6291456",
	}
	confs = map[string]string{
		"net/ipv4/conf/*/promote_secondaries": "0", "net/ipv4/conf/*/forwarding": "0", "net/ipv4/conf/*/rp_filter": "0",
		"net/ipv4/conf/*/proxy_arp": "0", "net/ipv6/conf/*/disable_ipv6": "0", "net/ipv6/conf/*/forwarding": "0",
		"net/ipv6/conf/*/accept_ra": "1", "net/ipv6/conf/*/autoconf": "1", "net/ipv6/conf/*/accept_redirects": "1",
		"net/ipv4/conf/*/accept_redirects": "1",
	}
)

// Sysctl reads a setting of a namespace.
func (k *Kernel) Sysctl(ns kernel.NS, place string) (value string, err error) {
	err = k.in(ns, "Sysctl", "read the setting "+place, func(n *namespace) error {
		value, err = n.setting(place)
		return err
	})
	return value, err
}

func (n *namespace) setting(place string) (string, error) {
	place = kernel.SettingName(place)
	first, known := settings[place]
	if parts := strings.Split(place, "/"); !known && len(parts) == 5 && parts[2] == "conf" {
		of := parts[3]
		parts[3] = "*"
		if first, known = confs[strings.Join(parts, "/")]; of != "all" && of != "default" && n.names[of] == nil {
			known = false
		}
	}
	if !known {
		return "", fmt.Errorf("%w: %w", kernel.ErrNotExist, syscall.ENOENT)
	}
	if value, set := n.settings[place]; set {
		return value, nil
	}
	return first, nil
}

// SetSysctl changes a setting of a namespace.
func (k *Kernel) SetSysctl(ns kernel.NS, place, value string) error {
	return k.write(ns, "SetSysctl", fmt.Sprintf("set %s to %q", place, value), func(n *namespace) error {
		was, err := n.setting(place)
		if err != nil {
			return err
		}
		numbers := strings.Fields(value)
		if len(numbers) != len(strings.Fields(was)) {
			return syscall.EINVAL
		}
		for _, number := range numbers {
			if _, err := strconv.Atoi(number); err != nil {
				return syscall.EINVAL
			}
		}
		is := strings.Join(numbers, "\t")
		n.settings[kernel.SettingName(place)] = is
		if is != was {
			n.writeOthers(place, is)
		}
		if strings.HasSuffix(place, "/disable_ipv6") {
			k.switchIPv6(n)
		}
		return nil
	})
}

// writeOthers writes the settings that the kernel writes with another one, except those of links that follow
// default, which is not simulated.
func (n *namespace) writeOthers(place, value string) {
	var links []kernel.Link
	for name := range n.names {
		links = append(links, kernel.Link{Name: name})
	}
	for _, w := range kernel.SettingWrites(place) {
		for to := range w.Places(links) {
			if _, err := n.setting(to); err == nil && !w.Untouched {
				n.settings[to] = w.Gets(value)
			}
		}
	}
}

// forgetSettings forgets those of a link that goes.
func (n *namespace) forgetSettings(link string) {
	for place := range confs {
		delete(n.settings, strings.Replace(place, "*", link, 1))
	}
}

// forgetIPv6Settings forgets those of a link that has no IPv6 any more.
func (n *namespace) forgetIPv6Settings(link string) {
	for place := range confs {
		if strings.HasPrefix(place, "net/ipv6/") {
			delete(n.settings, strings.Replace(place, "*", link, 1))
		}
	}
}

// moveSettings has those of a link go with it to another name.
func (n *namespace) moveSettings(from, to string) {
	for place := range confs {
		was, is := strings.Replace(place, "*", from, 1), strings.Replace(place, "*", to, 1)
		if value, set := n.settings[was]; set {
			n.settings[is] = value
			delete(n.settings, was)
		}
	}
}

// switchIPv6 takes IPv6 from the links where it is disabled, and brings it to the others.
func (k *Kernel) switchIPv6(n *namespace) {
	for _, l := range n.sorted() {
		switch {
		case k.ipv6Disabled(l):
			k.leaveIPv6(l)
		case l.running:
			k.comeToIPv6(l)
		}
	}
}

// on reports whether a setting is on for all links or for one.
func (l *link) on(family, name string) bool {
	return slices.ContainsFunc([]string{"all", l.Name}, func(of string) bool {
		return l.ns.settings["net/"+family+"/conf/"+of+"/"+name] == "1"
	})
}

func (k *Kernel) promotes(l *link) bool { return l.on("ipv4", "promote_secondaries") }

// ipv6Disabled: the setting of all links counts only when it is written, which writes theirs.
func (k *Kernel) ipv6Disabled(l *link) bool {
	value, set := l.ns.settings["net/ipv6/conf/"+l.Name+"/disable_ipv6"]
	if !set {
		value = l.ns.settings["net/ipv6/conf/default/disable_ipv6"]
	}
	return value == "1"
}

// accepts is what a link accepts by its settings. A link that is too small for IPv6 has none of
// that.
func (l *link) accepts() (s kernel.AcceptSpec) {
	number := func(place string) *int {
		n := 1 // at first
		if value, set := l.ns.settings[place]; set {
			n, _ = strconv.Atoi(value) // none but numbers are written
		}
		return &n
	}
	four, six := "net/ipv4/conf/"+l.Name+"/", "net/ipv6/conf/"+l.Name+"/"
	s.Redirects4 = number(four + "accept_redirects")
	if l.MTU >= minMTU6 {
		s.RA, s.Autoconf, s.Redirects6 = number(six+"accept_ra"), number(six+"autoconf"), number(six+"accept_redirects")
	}
	return s
}

// accept writes what a link is to accept.
func (k *Kernel) accept(l *link, s kernel.AcceptSpec) {
	if s == (kernel.AcceptSpec{}) {
		return
	}
	k.writes++
	set := func(place string, value *int) {
		if value != nil {
			l.ns.settings[place] = strconv.Itoa(*value)
		}
	}
	four, six := "net/ipv4/conf/"+l.Name+"/", "net/ipv6/conf/"+l.Name+"/"
	if forwards, _ := l.ns.setting("net/ipv4/ip_forward"); forwards == "0" {
		set("net/ipv4/conf/all/accept_redirects", s.AllRedirects4)
	}
	set(four+"accept_redirects", s.Redirects4)
	if l.MTU >= minMTU6 {
		set(six+"accept_ra", s.RA)
		set(six+"autoconf", s.Autoconf)
		set(six+"accept_redirects", s.Redirects6)
	}
}
