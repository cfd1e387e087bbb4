package models

import (
	"path"
	"slices"
	"strings"
	"unicode"
)

// IfName stands in the key of a setting for the name of an interface in the kernel.
const IfName = "IFNAME"

// maxSysctl bounds the value of a setting in bytes: the kernel takes a page.
const maxSysctl = 4000

// Path is the setting's place below /proc/sys: net/ipv4/ip_forward. Where the key
// begins with dots its slashes stand for dots, as in sysctl(8).
func (x *Sysctl) Path() string {
	key := x.GetKey()
	if i := strings.IndexAny(key, "./"); i >= 0 && key[i] == '.' {
		return strings.Map(func(r rune) rune {
			switch r {
			case '.':
				return '/'
			case '/':
				return '.'
			}
			return r
		}, key)
	}
	return key
}

// PathOf is the setting's place for an interface of that name in the kernel.
func (x *Sysctl) PathOf(hostName string) string {
	parts := strings.Split(x.Path(), "/")
	for i, p := range parts {
		if p == IfName {
			parts[i] = hostName
		}
	}
	return strings.Join(parts, "/")
}

// EffectiveValue is the value with one blank between its parts, however it was
// written or the kernel prints it.
func (x *Sysctl) EffectiveValue() string { return strings.Join(strings.Fields(x.GetValue()), " ") }

func (x *Sysctl) check(f *findings) {
	x.checkKey(f)
	switch {
	case x.EffectiveValue() == "":
		f.add("value", "must be given, such as \"1\"")
	case len(x.Value) > maxSysctl:
		f.add("value", "has %d bytes; at most %d are allowed", len(x.Value), maxSysctl)
	case strings.ContainsFunc(x.Value, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		f.add("value", "holds a control character; a setting is one line")
	}
	if x.Interface != "" {
		checkRef(x.Interface, "interface", "an interface", f)
	}
	switch {
	case x.Namespace == nil:
	case x.Interface != "":
		f.add("namespace", "not together with interface: the setting is where the interface is; leave it out")
	default:
		x.Namespace.check("namespace", f)
	}
}

func (x *Sysctl) checkKey(f *findings) {
	place := x.Path()
	parts := strings.Split(place, "/")
	named := slices.Contains(parts, IfName)
	switch {
	case x.Key == "":
		f.add("key", "must be given, such as net.ipv4.ip_forward")
	case parts[0] != "net":
		f.add("key", "%s is a setting of the whole host; only those that begin with net belong to a namespace. Use sysctl(8)", x.Key)
	case len(parts) < 3 || path.Clean(place) != place || len(place) > maxPath || strings.ContainsFunc(place, unicode.IsControl):
		f.add("key", "%q is no name of a setting such as net.ipv4.ip_forward", x.Key)
	case named && x.Interface == "":
		f.add("interface", "must be given: the logical name of the interface for which %s stands in key", IfName)
	case !named && x.Interface != "":
		f.add("key", "must hold %s where the name of the interface stands, such as net.ipv4.conf.%s.rp_filter", IfName, IfName)
	}
}
