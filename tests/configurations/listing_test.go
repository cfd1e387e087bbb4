package configurations

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// script lists a namespace. A line "== QUESTION" precedes each answer.
const script = `
echo "== link";    ip -d -j link
echo "== address"; ip -d -j address
for f in 4 6; do
  echo "== route"; ip -$f -d -j route show table all
  echo "== rule";  ip -$f -d -j rule
done
echo "== nexthop"; ip -d -j nexthop
echo "== neighbor"; ip -d -j neighbor show nud permanent; ip -d -j neighbor show proxy
echo "== vlan";    bridge -d -j vlan 2> /dev/null
echo "== port";    bridge -d -j link
echo "== fdb";     bridge -d -j fdb show state permanent; bridge -d -j fdb show state static
echo "== tc"
tc -d qdisc
for d in $(tc qdisc | sed -n 's/^qdisc [^ ]* [^0][^ ]* dev \([^ ]*\).*/\1/p' | sort -u); do
  tc -d class show dev $d
  for at in root ingress egress; do tc -d filter show dev $d $at 2>&1 | sed "s/^/$d $at: /"; done
done
echo "== nft";     nft --stateless list ruleset
echo "== sysctl";  grep -rs . /proc/sys/net/ipv4 /proc/sys/net/ipv6 || true
`

// listing returns all objects and settings of a namespace, one per line and sorted, without what may differ.
func listing(t testing.TB, ns *netlinktest.Namespace, differences []difference) string {
	t.Helper()
	var out string
	for out = ns.Run(t, "sh", "-c", script); strings.Contains(out, "interrupted"); { // by a change
		out = ns.Run(t, "sh", "-c", script)
	}
	var lines []string
	for _, answer := range strings.Split(out, "== ")[1:] {
		question, text, _ := strings.Cut(answer, "\n")
		if question == "nft" {
			lines = append(lines, tables(text, differences)...)
			continue
		}
		for line := range strings.Lines(text) {
			var objects []any
			if strings.HasPrefix(line, "[") && json.Unmarshal([]byte(line), &objects) == nil {
				for _, o := range objects {
					lines = append(lines, object(question, normalized(question, "", o, differences).(map[string]any))...)
				}
				continue
			}
			if line = replaced(question, "", strings.TrimSpace(line), differences); line != "" {
				lines = append(lines, question+" "+line)
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// tables returns the lines of all tables of nftables with their numbers, because their order counts. The order of
// tables is that of their creation, so each line names its table.
func tables(text string, differences []difference) (lines []string) {
	var table string
	var n int
	for line := range strings.SplitSeq(text, "\n") {
		if name, begins := strings.CutPrefix(line, "table "); begins {
			table, n = strings.TrimSuffix(name, " {"), 0
		}
		if line = replaced("nft", "", line, differences); strings.Trim(line, "\t }") != "" {
			lines = append(lines, fmt.Sprintf("nft %s %03d: %s", table, n, line))
			n++
		}
	}
	return lines
}

// object returns the lines of an object: of a link one for each attribute, of its addresses one for each,
// otherwise the object in JSON.
func object(question string, o map[string]any) (lines []string) {
	switch question {
	case "link":
		return attributes(fmt.Sprint("link ", o["ifname"]), o)
	case "address":
		for _, a := range o["addr_info"].([]any) {
			lines = append(lines, inJSON(fmt.Sprint("address ", o["ifname"]), a))
		}
		return lines
	}
	return []string{inJSON(question, o)}
}

func inJSON(of string, o any) string {
	line, err := json.Marshal(o)
	if err != nil {
		panic(err) // it was read from JSON
	}
	return of + " " + string(line)
}

// attributes returns the attributes of an object, also those within others.
func attributes(of string, v any) (lines []string) {
	o, is := v.(map[string]any)
	if !is {
		return []string{fmt.Sprintf("%s %v", of, v)}
	}
	for name, x := range o {
		lines = append(lines, attributes(of+" "+name, x)...)
	}
	return lines
}

// normalized returns a value in JSON without what may differ.
func normalized(question, attribute string, v any, differences []difference) any {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			of := question
			if name == "nh_info" { // of a route
				of = "nexthop"
			}
			if x = normalized(of, name, x, differences); x == "" {
				delete(v, name)
			} else {
				v[name] = x
			}
		}
	case []any:
		for i, x := range v {
			v[i] = normalized(question, attribute, x, differences)
		}
	case string, float64, bool:
		text := fmt.Sprint(v)
		if f, is := v.(float64); is {
			text = fmt.Sprintf("%.0f", f)
		}
		if now := replaced(question, attribute, text, differences); now != text {
			return now
		}
	}
	return v
}

// replaced returns a text without what may differ.
func replaced(question, attribute, text string, differences []difference) string {
	for _, d := range differences {
		if (d.question == "" || d.question == question) && (d.attribute == "" || d.attribute == attribute) {
			text = d.is.ReplaceAllString(text, d.as)
		}
	}
	return text
}

// difference is one that may be between the result of Plumb and that of the tools, and why. The text that
// matches is replaced. An attribute or a line that is empty then is left out.
type difference struct {
	question, attribute string // "" is any; the lines of answers that are not in JSON have no attribute
	is                  *regexp.Regexp
	as                  string
	why                 string
}

// differencesOf returns all differences for the label of an agent.
func differencesOf(label string) (all []difference) {
	group, protocol, handle := fmt.Sprint(kernel.Group(label)), fmt.Sprint(kernel.Protocol(label)), fmt.Sprintf("%x", kernel.Handle(label))
	for _, d := range [][5]string{
		// Marks of Plumb.
		{"link", "ifalias", `^plumb:.*`, "", "the mark of a link"},
		{"link", "group", "^" + group + "$", "default", "links of Plumb are created in a group"},
		{"address", "protocol", "^" + protocol + "$", "", "the mark of an address; the tools set none"},
		{"neighbor", "protocol", "^" + protocol + "$", "", "the mark of a neighbor; the tools set none"},
		{"nexthop", "protocol", "^" + protocol + "$", "unspec", "the mark of a nexthop; the tools set none"},
		{"route", "protocol", "^" + protocol + "$", "boot", "the mark of a route; the tools set boot"},
		{"rule", "protocol", "^" + protocol + "$", "unspec", "the mark of a rule; the tools set none"},
		{"nft", "", `^\s*comment "plumb:.*"$`, "", "the mark of a table"},
		{"tc", "", `\b(` + handle + `|8[0-9a-f]{3}):`, "HANDLE:", "the mark of a queueing discipline; the tools let the kernel choose"},
		{"tc", "", `pref (2867\d|49152)`, "pref PREF", "the mark of a filter; the tools let the kernel choose"},
		{"tc", "", `^\S+ \S+gress:\s+cookie .*`, "", "the same"},

		// Choices of Plumb.
		{"link", "num_tx_queues", `.+`, "", "a veth of Plumb has one queue, one of the tools has one per processor; see decision 144"},
		{"tc", "", `refcnt \d+`, "", "the same"},
		{"sysctl", "", `^(/proc/sys/net/ipv[46]/conf/[^/]+/(accept_ra|accept_redirects|autoconf)):0$`, "$1:1", "links of Plumb accept neither advertisements nor redirects by default"},

		// Choices of the kernel.
		{"", "ifindex", `.+`, "", "the next free number"},
		{"link", "", `^([0-9a-f]{4})\.[0-9a-f]{1,2}(:[0-9a-f]{1,2}){5}$`, "$1.RANDOM", "contains the hardware address of the bridge"},
		{"", "", `\b[0-9a-f][26ae](:[0-9a-f]{2}){5}\b`, "RANDOM", "a random hardware address; those of testdata are global"},
		{"", "", `\bfe80::[0-9a-f:]*ff:fe[0-9a-f:]*\b`, "fe80::RANDOM", "contains the hardware address"},
		{"fdb", "mac", `^33:33:ff:.*`, "33:33:ff:RANDOM", "the same"},
		{"link", "permaddr", `.+`, "", "a random address"},
		{"", "id", `^0x.+`, "", "the number of a port of a bridge, by order of creation"},
		{"", "no", `^0x.+`, "", "the same"},
		{"", "designated_port", `.+`, "", "the same"},
		{"tc", "", `\b(fh|ht) 80[0-9a-f]\b`, "$1 TABLE", "the number of a hash table, by order of creation"},
		{"tc", "", `\bindex \d+`, "index", "the next free number"},
		{"vlan", "", `^\[$`, "", "the answer of a kernel without VLANs of bridges"},

		// Changes of the kernel.
		{"", "hello_timer", `.+`, "", "a timer"},
		{"", "tcn_timer", `.+`, "", "a timer"},
		{"", "topology_change_timer", `.+`, "", "a timer"},
		{"", "gc_timer", `.+`, "", "a timer"},
		{"", "hold_timer", `.+`, "", "a timer"},
		{"", "message_age_timer", `.+`, "", "a timer"},
		{"", "forward_delay_timer", `.+`, "", "a timer"},
		{"", "state", `^(listening|learning)$`, "forwarding", "a port of a bridge forwards some seconds later"},
		{"route", "expires", `.+`, "", "a remaining time"},
		{"address", "valid_life_time", `^\d{1,9}$`, "TIME", "a remaining time; for ever has ten digits"},
		{"address", "preferred_life_time", `^\d{1,9}$`, "TIME", "the same"},
	} {
		all = append(all, difference{d[0], d[1], regexp.MustCompile(d[2]), d[3], d[4]})
	}
	return all
}
