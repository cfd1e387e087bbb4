package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// Places are the namespaces of the host by name: own, the named ones, and
// those of its running containers.
func (h *Host) Places() map[string]*netlinktest.Namespace {
	h.t.Helper()
	all := map[string]*netlinktest.Namespace{"own": h.Own}
	named, _ := os.ReadDir(h.NetnsDir())
	for _, f := range named {
		if _, err := os.Stat(filepath.Join(h.NetnsDir(), f.Name())); err == nil { // it may be being removed
			all["netns "+f.Name()] = h.Named(f.Name())
		}
	}
	for _, c := range h.containers {
		out, err := h.Engine.Try("inspect", "--format", "{{.State.Pid}}", c)
		if err == nil && out != "0" {
			all["container "+strings.TrimPrefix(c, h.Label+"-")] = namespaceAt(h.t, "/proc/"+out+"/ns/net")
		}
	}
	return all
}

// questions are what is asked of ip(8) in every namespace.
var questions = []string{"link", "address", "-4 route show table all", "-6 route show table all", "-4 rule", "-6 rule", "nexthop"}

// Exact is all links, addresses, routes, rules, nexthops, queueing disciplines and tables of nftables of the host to the byte, as
// `ip -d -j` shows them, one object per line. What ticks by itself is left out.
func (h *Host) Exact() string { h.t.Helper(); return h.settled(exactly) }

// givenMAC is how MACs begin that tests give. Of the random ones of the kernel one in four
// million does; of those that begin with two bytes of it, one in sixteen thousand.
const givenMAC = "02:00:00:"

// Picture is the same with indexes, random MACs and what follows from them set
// aside, so that two hosts can be compared. The label is LABEL.
func (h *Host) Picture() string {
	h.t.Helper()
	return strings.ReplaceAll(h.settled(loosely), h.Label, "LABEL")
}

// settled waits for changes that the kernel makes in the background: IPv6 addresses are tentative for up to two
// seconds, and a link that has lost its carrier, such as a new bridge, shows NO-CARRIER up to a second later.
func (h *Host) settled(clean func(map[string]any)) (picture string) {
	h.t.Helper()
	h.Eventually("no address is tentative, and each link has a carrier or none", func() error {
		if picture = h.picture(clean); strings.Contains(picture, `"tentative":true`) {
			return errors.New("an address is tentative")
		}
		for _, flags := range linkFlags.FindAllString(picture, -1) {
			if strings.Contains(flags, `"UP"`) && !strings.Contains(flags, "LOWER_UP") && !strings.Contains(flags, "NO-CARRIER") {
				return errors.New("a link is up without telling of its carrier: " + flags)
			}
		}
		return nil
	})
	return picture
}

// linkFlags are the flags of a link.
var linkFlags = regexp.MustCompile(`"flags":\["BROADCAST[^]]*\]`)

func (h *Host) picture(clean func(map[string]any)) string {
	h.t.Helper()
	places := h.Places()
	var b strings.Builder
	for _, name := range sorted(places) {
		for _, q := range questions {
			var lines []string
			for _, o := range Show(h.t, places[name], q) {
				clean(o)
				line, err := json.Marshal(o)
				if err != nil {
					h.t.Fatal(err)
				}
				if len(o) > 0 {
					lines = append(lines, fmt.Sprintf("%s: %s: %s\n", name, q, line))
				}
			}
			slices.Sort(lines)
			b.WriteString(strings.Join(lines, ""))
		}
		b.WriteString(h.traffic(name, places[name]))
		b.WriteString(h.tables(name, places[name]))
		b.WriteString(h.listeners(name, places[name]))
	}
	return b.String()
}

// traffic is what tc shows of the queueing disciplines that somebody has set in a place, and where
// copies go. Handles of ours are made of the label.
func (h *Host) traffic(place string, ns *netlinktest.Namespace) string {
	h.t.Helper()
	handle := fmt.Sprintf(" %x: ", kernel.Handle(h.Label))
	var lines []string
	for line := range strings.Lines(ns.Run(h.t, "tc", "qdisc", "show")) {
		words := strings.Fields(line)
		if len(words) < 5 || words[2] == "0:" {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: qdisc: %s\n", place, strings.TrimSpace(strings.Replace(line, handle, " HANDLE: ", 1))))
		if words[1] != kernel.HookBoth {
			continue
		}
		for _, hook := range []string{"ingress", "egress"} {
			for line := range strings.Lines(ns.Run(h.t, "tc", "filter", "show", "dev", words[4], hook)) {
				if strings.Contains(line, "mirred") {
					lines = append(lines, fmt.Sprintf("%s: %s of %s: %s\n", place, hook, words[4], strings.TrimSpace(line)))
				}
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// tables is what nft lists in a place: line by line and sorted, for it is in the order
// in which tables were made.
func (h *Host) tables(place string, ns *netlinktest.Namespace) string {
	h.t.Helper()
	var lines []string
	for line := range strings.Lines(ns.Run(h.t, "nft", "--stateless", "list", "ruleset")) {
		if line = strings.TrimSpace(line); len(line) > 1 {
			lines = append(lines, fmt.Sprintf("%s: nft: %s\n", place, line))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// listeners is who listens in a place. A container runtime listens elsewhere after each
// start.
func (h *Host) listeners(place string, ns *netlinktest.Namespace) string {
	h.t.Helper()
	var lines []string
	for line := range strings.Lines(ns.Run(h.t, "ss", "--no-header", "--listening", "--numeric", "--processes", "--tcp", "--udp")) {
		if f := strings.Fields(line); len(f) > 4 && !strings.Contains(line, `"containerd"`) {
			lines = append(lines, fmt.Sprintf("%s: ss: %s %s\n", place, f[0], f[4]))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// ticking are fields that change by themselves.
var ticking = []string{"hello_timer", "tcn_timer", "topology_change_timer", "gc_timer", "hold_timer",
	"message_age_timer", "forward_delay_timer", "expires", "valid_life_time", "preferred_life_time"}

// Show runs `ip -d -j` in a namespace and returns what it shows at one moment:
// a dump that was interrupted by a change is made again.
func Show(t testing.TB, ns *netlinktest.Namespace, query string) (objects []map[string]any) {
	t.Helper()
	out := ip(t, ns, "", strings.Fields(query)...)
	if len(bytes.TrimSpace(out)) == 0 {
		return nil
	}
	if err := json.Unmarshal(out, &objects); err != nil {
		t.Fatalf("ip %s: %v\n%s", query, err, out)
	}
	return objects
}

// showAll is Show of several queries by one ip(8), with options of it.
func showAll(t testing.TB, ns *netlinktest.Namespace, options, queries []string) (answers [][]object) {
	t.Helper()
	out := ip(t, ns, strings.Join(queries, "\n")+"\n", append(options, "-batch", "-")...)
	if len(bytes.TrimSpace(out)) == 0 {
		return make([][]object, len(queries))
	}
	d := json.NewDecoder(bytes.NewReader(out))
	for range queries {
		var objects []object
		if err := d.Decode(&objects); err != nil {
			t.Fatalf("ip %v: %v\n%s", queries, err, out)
		}
		answers = append(answers, objects)
	}
	return answers
}

// object is one of those that ip(8) shows. What its packets are put into stands beside the
// rest, by names that may be there already: the second "dst" is called "dst2".
type object map[string]any

func (o *object) UnmarshalJSON(text []byte) error {
	*o = object{}
	d := json.NewDecoder(bytes.NewReader(text))
	_, err := d.Token()
	for err == nil && d.More() {
		var token json.Token
		var value any
		if token, err = d.Token(); err == nil {
			err = d.Decode(&value)
		}
		name := fmt.Sprint(token)
		if _, there := (*o)[name]; there {
			name += "2"
		}
		(*o)[name] = value
	}
	return err
}

// namespaceEnded matches what nsenter prints if the file is no longer one of a namespace.
var namespaceEnded = regexp.MustCompile(`^nsenter: (reassociate to namespace|cannot open)`)

// ip runs ip(8) in a namespace. It prints nothing in one that is being removed.
func ip(t testing.TB, ns *netlinktest.Namespace, stdin string, args ...string) []byte {
	t.Helper()
	for range 100 {
		cmd := exec.Command("nsenter", append([]string{"--net=" + ns.Path, "--", "ip", "-d", "-j"}, args...)...)
		var story bytes.Buffer
		cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), &story
		out, err := cmd.Output()
		if strings.Contains(story.String(), "interrupted") {
			continue
		}
		if err != nil && namespaceEnded.MatchString(story.String()) {
			return nil
		}
		if err != nil {
			t.Fatalf("ip %v: %v\n%s%s", args, err, out, story.String())
		}
		return out
	}
	t.Fatalf("ip %v: never at rest", args)
	return nil
}

func exactly(o map[string]any) {
	walk(o, func(key string, v any) (any, bool) {
		if key == "state" && (v == "listening" || v == "learning") {
			v = "forwarding" // a port of a bridge is on its way to that by itself
		}
		return v, !slices.Contains(ticking, key)
	})
}

// numbers are fields that depend on who came first.
var numbers = []string{"ifindex", "link_index", "link_netnsid", "port_id", "designated_port", "no", "num_tx_queues",
	"num_rx_queues", "fan_index", "pref"}

var (
	mac       = regexp.MustCompile(`\b[0-9a-f]{1,2}(:[0-9a-f]{1,2}){5}\b`)
	linkLocal = regexp.MustCompile(`fe80::[0-9a-f:]*[0-9a-f]`)
)

func loosely(o map[string]any) {
	exactly(o)
	walk(o, func(key string, v any) (any, bool) {
		if slices.Contains(numbers, key) {
			return nil, false
		}
		if key == "group" && v != "default" {
			return "some", true
		}
		if text, ok := v.(string); ok {
			if key == "id" { // of a bridge port
				return nil, false
			}
			text = linkLocal.ReplaceAllString(text, "fe80::*")
			return mac.ReplaceAllStringFunc(text, func(m string) string {
				if strings.HasPrefix(m, givenMAC) || strings.HasPrefix(m, "00:00:00:00:") || m == "ff:ff:ff:ff:ff:ff" {
					return m
				}
				return "*"
			}), true
		}
		return v, true
	})
}

// walk replaces values at any depth, and takes out those that are not kept.
func walk(v any, f func(key string, v any) (any, bool)) {
	switch v := v.(type) {
	case map[string]any:
		for key, x := range v {
			walk(x, f)
			if now, keep := f(key, x); keep {
				v[key] = now
			} else {
				delete(v, key)
			}
		}
	case []any:
		for i, x := range v {
			walk(x, f)
			if now, keep := f("", x); keep {
				v[i] = now
			}
		}
	}
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Marked are the links and the processes that bear the agent's mark.
func (h *Host) Marked() (all []string) {
	h.t.Helper()
	places := h.Places()
	for _, name := range sorted(places) {
		for _, l := range Show(h.t, places[name], "link") {
			if alias, _ := l["ifalias"].(string); strings.HasPrefix(alias, "plumb:"+h.Label+":") {
				all = append(all, fmt.Sprintf("%s in %s (%s)", l["ifname"], name, alias))
			}
		}
	}
	for pid, mark := range h.Proxies() {
		all = append(all, fmt.Sprintf("process %d (%s)", pid, mark))
	}
	return all
}

// Proxies are the processes of proxies of this host, with their marks.
func (h *Host) Proxies() map[int]string {
	all := map[int]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		text, _ := os.ReadFile(dir + "/cmdline") // it may have ended
		args := strings.Split(string(text), "\x00")
		if len(args) > 2 && args[1] == "proxy-child" && strings.HasPrefix(args[2], "plumb:"+h.Label+":") {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			all[pid] = args[2]
		}
	}
	return all
}

// Diff shows the lines that two pictures do not share.
func Diff(before, after string) string {
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	var b strings.Builder
	for _, l := range was {
		if !slices.Contains(is, l) {
			fmt.Fprintln(&b, "-", l)
		}
	}
	for _, l := range is {
		if !slices.Contains(was, l) {
			fmt.Fprintln(&b, "+", l)
		}
	}
	return b.String()
}
