package host

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// End is how a story ends, or a part of one: what agentctl diff finds between what is wanted and
// what the agent sees, and what `ip -d -j` shows in each place without asking any agent. What
// the kernel makes by itself is left out.
func (h *Host) End() string {
	h.t.Helper()
	r := h.Ctl("diff")
	text := r.Out + r.Err
	places := h.Places()
	for _, name := range slices.Sorted(maps.Keys(places)) {
		text += name + "\n"
		for _, family := range []struct {
			options, queries []string
			lines            []func(o map[string]any) string
		}{
			{nil, []string{"address", "neighbor show nud permanent", "nexthop"}, []func(map[string]any) string{linkLine, neighborLine, nexthopLine}},
			{[]string{"-4"}, []string{"route show table all", "rule"}, []func(map[string]any) string{routeLine, ruleLine}},
			{[]string{"-6"}, []string{"route show table all", "rule"}, []func(map[string]any) string{routeLine, ruleLine}},
		} {
			for i, objects := range showAll(h.t, places[name], family.options, family.queries) {
				var lines []string
				for _, o := range objects {
					if line := family.lines[i](o); line != "" {
						lines = append(lines, "  "+line+"\n")
					}
				}
				slices.Sort(lines)
				text += strings.Join(lines, "")
			}
		}
	}
	return text
}

// usual are what fields have that say nothing new.
var usual = map[string]any{"table": "main", "scope": "global"}

// part is a field of an object and how it is called; "" when there is none, or the usual.
func part(o map[string]any, name, field string) string {
	if v := Dig(o, strings.Split(field, ".")...); v != nil && v != "" && v != usual[field] {
		return fmt.Sprintf(" %s %v", name, v)
	}
	return ""
}

func linkLine(o map[string]any) string {
	var addresses []string
	all, _ := o["addr_info"].([]any)
	for _, a := range all {
		a := a.(map[string]any)
		if a["scope"] == "global" {
			addresses = append(addresses, fmt.Sprintf(" %v/%v", a["local"], a["prefixlen"]))
		}
	}
	slices.Sort(addresses)
	if o["ifname"] == "lo" && len(addresses) == 0 {
		return ""
	}
	up := "down"
	if flags, _ := o["flags"].([]any); slices.Contains(flags, any("UP")) {
		up = "up"
	}
	line := fmt.Sprintf("link %v %v %s mtu %v", o["ifname"], cmp.Or(Dig(o, "linkinfo", "info_kind"), any("-")), up, o["mtu"])
	if mac := fmt.Sprint(o["address"]); strings.HasPrefix(mac, givenMAC) {
		line += " address " + mac
	}
	line += part(o, "master", "master") + part(o, "mode", "linkinfo.info_data.mode") + part(o, "id", "linkinfo.info_data.id") +
		part(o, "table", "linkinfo.info_data.table") + part(o, "table", "linkinfo.info_slave_data.table")
	if alias, _ := o["ifalias"].(string); alias != "" {
		line += " alias " + alias
	}
	return line + strings.Join(addresses, "")
}

func routeLine(o map[string]any) string {
	if o["protocol"] == "kernel" {
		return ""
	}
	line := "route"
	if o["type"] != "unicast" {
		line += fmt.Sprint(" ", o["type"])
	}
	line += fmt.Sprint(" ", o["dst"]) + part(o, "via", "gateway") + part(o, "dev", "dev") + part(o, "src", "prefsrc") + part(o, "metric", "metric") +
		part(o, "table", "table") + part(o, "proto", "protocol") + part(o, "scope", "scope") + part(o, "nexthop", "nhid") + outer(o)
	if hops, _ := o["nexthops"].([]any); o["nhid"] == nil {
		for _, h := range hops {
			line += " hop" + part(h.(map[string]any), "via", "gateway") + part(h.(map[string]any), "dev", "dev") + part(h.(map[string]any), "weight", "weight") + outer(h.(map[string]any))
		}
	}
	return line
}

// outer is what the packets of a route or nexthop are put into.
func outer(o map[string]any) string {
	if o["encap"] == nil {
		return ""
	}
	text := fmt.Sprint(" encap ", o["encap"])
	for _, name := range []string{"id", "dst"} {
		if v := cmp.Or(o[name+"2"], o[name]); v != nil {
			text += fmt.Sprintf(" %s %v", name, v)
		}
	}
	return text
}

func ruleLine(o map[string]any) string {
	if o["protocol"] == "kernel" {
		return ""
	}
	return fmt.Sprintf("rule %v", o["priority"]) + part(o, "from", "src") + part(o, "length", "srclen") + part(o, "to", "dst") + part(o, "iif", "iif") +
		part(o, "mark", "fwmark") + part(o, "table", "table") + part(o, "proto", "protocol")
}

func neighborLine(o map[string]any) string {
	return fmt.Sprintf("neighbor %v", o["dst"]) + part(o, "address", "lladdr") + part(o, "dev", "dev")
}

func nexthopLine(o map[string]any) string {
	line := fmt.Sprintf("nexthop %v", o["id"]) + part(o, "via", "gateway") + part(o, "dev", "dev") + outer(o)
	if o["blackhole"] != nil {
		line += " blackhole"
	}
	return line
}

// Dig finds a value by its path; in lists it takes that of every member.
func Dig(v any, path ...string) any {
	switch v := v.(type) {
	case map[string]any:
		if len(path) > 0 {
			return Dig(v[path[0]], path[1:]...)
		}
	case []any:
		if len(path) > 0 {
			var all []any
			for _, x := range v {
				if x = Dig(x, path...); x != nil {
					all = append(all, x)
				}
			}
			return all
		}
	}
	if len(path) > 0 {
		return nil
	}
	return v
}

// AwaitNoDifference waits until agentctl diff finds none.
func (h *Host) AwaitNoDifference() {
	h.t.Helper()
	h.Eventually("there is no difference", func() error {
		if r := h.Ctl("diff"); r.Code != 0 {
			return fmt.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
		}
		return nil
	})
}
