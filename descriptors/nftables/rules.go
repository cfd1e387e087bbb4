package nftables

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// program is the rules of a table that decide on translations, parsed from the text that nft lists,
// with the elements of the sets and maps that they use. Programs are equal if they translate equally.
type program map[string]chain

type chain struct {
	Hook  string // "" if other chains jump to it
	Rules []rule
}

// rule is a parsed rule that ends a chain: by a translation, a verdict or a jump.
type rule struct {
	Conditions []condition
	// Unknown is the text of the conditions that the first packet of a connection, as far as the
	// connection shows it, does not decide, such as iifname.
	Unknown string
	// Action is accept, drop, return, jump, goto, vmap, dnat, snat, redirect or masquerade.
	Action string
	// Key and Choices are the map of an action, of which all choices are possible without a key.
	// An action with only one choice has neither key nor spans.
	Key     []string
	Choices []element
}

// condition compares fields with elements.
type condition struct {
	Fields []string
	Not    bool
	In     []element
}

// element is an element of a set, with one span for each field, or of a map, with its data.
type element struct {
	Spans []span
	Data  string
}

// span is a range of values of a field. Values are strings of equal length that compare as the
// values do.
type span struct{ From, To string }

func (s span) contains(v string) bool {
	return len(v) == len(s.From) && s.From <= v && v <= s.To
}

// packet is the first packet of a connection at a hook, as values of fields.
type packet struct {
	protocol            uint8
	is4                 bool
	source, destination end
	local               bool // the destination is an address of the namespace
}

type end struct{ address, port string }

func endOf(at netip.AddrPort) end {
	return end{string(at.Addr().AsSlice()), string([]byte{byte(at.Port() >> 8), byte(at.Port())})}
}

// field is a part of a packet that rules compare. of returns false if the packet lacks it.
type field struct {
	of    func(packet) (string, bool)
	parse func(text string) (value string, ok bool)
}

var protocols = map[string]uint8{"udp": syscall.IPPROTO_UDP, "tcp": syscall.IPPROTO_TCP, "sctp": syscall.IPPROTO_SCTP, "dccp": syscall.IPPROTO_DCCP,
	"udplite": syscall.IPPROTO_UDPLITE, "icmp": syscall.IPPROTO_ICMP, "ipv6-icmp": syscall.IPPROTO_ICMPV6, "icmpv6": syscall.IPPROTO_ICMPV6}

// withPorts are the headers with ports; th is any of them.
var withPorts = []string{"udp", "tcp", "sctp", "dccp", "udplite", "th"}

var fields = func() map[string]field {
	address := func(text string) (string, bool) {
		a, err := netip.ParseAddr(text)
		return string(a.AsSlice()), err == nil
	}
	number := func(text string) (string, bool) {
		n, err := strconv.ParseUint(text, 10, 16)
		return string([]byte{byte(n >> 8), byte(n)}), err == nil
	}
	protocol := func(text string) (string, bool) {
		if p, ok := protocols[text]; ok {
			return string([]byte{p}), true
		}
		n, err := strconv.ParseUint(text, 10, 8)
		return string([]byte{byte(n)}), err == nil
	}
	word := func(words ...string) func(string) (string, bool) {
		return func(text string) (string, bool) { return text, slices.Contains(words, text) }
	}
	family := func(p packet) string {
		if p.is4 {
			return "ipv4"
		}
		return "ipv6"
	}
	all := map[string]field{
		"meta l4proto":   {func(p packet) (string, bool) { return string([]byte{p.protocol}), true }, protocol},
		"ip protocol":    {func(p packet) (string, bool) { return string([]byte{p.protocol}), family(p) == "ipv4" }, protocol},
		"meta nfproto":   {func(p packet) (string, bool) { return family(p), true }, word("ipv4", "ipv6")},
		"fib daddr type": {func(p packet) (string, bool) { return map[bool]string{true: "local"}[p.local], true }, word("local")},
	}
	for side, of := range map[string]func(packet) end{
		"s": func(p packet) end { return p.source },
		"d": func(p packet) end { return p.destination },
	} {
		for header, version := range map[string]string{"ip": "ipv4", "ip6": "ipv6"} {
			all[header+" "+side+"addr"] = field{func(p packet) (string, bool) { return of(p).address, family(p) == version }, address}
		}
		for _, header := range withPorts {
			protocol, th := protocols[header], header == "th"
			all[header+" "+side+"port"] = field{func(p packet) (string, bool) {
				return of(p).port, th && of(p).port != "\x00\x00" || protocol == p.protocol
			}, number}
		}
	}
	return all
}()

// programOf parses the chains of a table to which packets that may be translated come.
func programOf(t kernel.Table) program {
	sets := map[string]kernel.TableSet{}
	for _, s := range slices.Concat(t.Sets, t.Maps) {
		sets["@"+s.Name] = s
	}
	pr := program{}
	family := map[string]string{"ip": "meta nfproto ipv4 ", "ip6": "meta nfproto ipv6 "}[t.Family]
	for _, c := range t.Chains {
		if c.Hook != "" && c.Type != "nat" {
			continue
		}
		var rules []rule
		for _, text := range c.Rules {
			if r := ruleOf(family+text, sets); r.Action != "" {
				rules = append(rules, r)
			}
		}
		pr[c.Name] = chain{c.Hook, rules}
	}
	return pr
}

var (
	tokens     = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|[^\s{]+`)
	attributes = regexp.MustCompile(` (?:comment "[^"]*"|counter packets \d+ bytes \d+|(?:timeout|expires) \S+)`)
)

func ruleOf(text string, sets map[string]kernel.TableSet) (r rule) {
	words := tokens.FindAllString(text, -1)
	var unknown []string
	opaque := false // the fields are those of another packet
	for i := 0; i < len(words); i++ {
		if names, n := fieldsOf(words[i:]); n > 0 && !opaque {
			if c, used, ok := conditionOf(names, words[i+n:], sets); ok {
				r.Conditions = append(r.Conditions, c)
				i += n + used - 1
				continue
			}
			if i+n+1 < len(words) && words[i+n] == "vmap" {
				r.Action, r.Key = "vmap", names
				r.choose(elementsOf(words[i+n+1], names, sets))
				break
			}
		}
		switch w := words[i]; w {
		case "counter":
			if i+1 < len(words) && words[i+1] == "packets" {
				i += 4
			}
		case "comment":
			i++
		case "ct":
			opaque = opaque || i+1 < len(words) && (words[i+1] == "original" || words[i+1] == "reply")
			n := min(i+3, len(words))
			unknown = append(unknown, words[i:n]...)
			i = n - 1
		case "accept", "drop", "return", "masquerade":
			r.Action, r.Choices = w, []element{{}}
			i = len(words)
		case "jump", "goto":
			r.Action, r.Choices = w, []element{{Data: strings.Join(words[i+1:i+2], "")}}
			i = len(words)
		case "vmap": // of a key that is unknown
			r.Action = w
			r.choose(elementsOf(strings.Join(words[i+1:i+2], ""), nil, sets))
			unknown = append(unknown, words[i:]...)
			i = len(words)
		case "dnat", "snat", "redirect":
			r.Action = w
			r.leads(words[i+1:], sets)
			i = len(words)
		default:
			unknown = append(unknown, w)
		}
	}
	r.Unknown = strings.TrimSpace(strings.Join(append(unknown, r.Unknown), " "))
	return r
}

// leads parses to which targets a translation leads: TARGET, or KEY map ELEMENTS.
func (r *rule) leads(words []string, sets map[string]kernel.TableSet) {
	to := slices.Index(words, "to")
	rest := slices.DeleteFunc(slices.Clone(words[to+1:]), func(w string) bool {
		return slices.Contains([]string{"random", "fully-random", "persistent"}, w)
	})
	switch at := slices.Index(rest, "map"); {
	case len(rest) == 0:
		r.Choices = []element{{}}
	case at < 0:
		r.Choices = []element{{Data: strings.Join(rest, " ")}}
	default:
		names, n := fieldsOf(rest)
		if n != at {
			names = nil
			r.Unknown = strings.Join(rest[:at], " ")
		}
		r.Key = names
		r.choose(elementsOf(strings.Join(rest[at+1:], " "), names, sets))
	}
	for _, e := range r.Choices {
		if _, ok := targetOf(e.Data); !ok || to > 0 && slices.Contains(words[:to], "prefix") {
			r.Unknown = strings.Join(words, " ")
		}
	}
}

// choose sets the elements of the map of an action.
func (r *rule) choose(list []element, ok bool) {
	if r.Choices = list; !ok {
		r.Key, r.Unknown = nil, "map"
	}
}

// fieldsOf parses FIELD or FIELD . FIELD, and returns how many words that is.
func fieldsOf(words []string) (names []string, n int) {
next:
	for size := 3; size >= 2; size-- {
		if n+size > len(words) {
			continue
		}
		name := strings.Join(words[n:n+size], " ")
		if _, ok := fields[name]; !ok {
			continue
		}
		names, n = append(names, name), n+size
		if n < len(words) && words[n] == "." {
			n++
			goto next
		}
		return names, n
	}
	return nil, 0
}

// conditionOf parses what follows the fields of a condition.
func conditionOf(names, words []string, sets map[string]kernel.TableSet) (c condition, used int, ok bool) {
	c.Fields = names
	if len(words) > 0 && (words[0] == "!=" || words[0] == "==") {
		c.Not, used = words[0] == "!=", 1
	}
	if used >= len(words) {
		return c, used, false
	}
	c.In, ok = elementsOf(words[used], names, sets)
	return c, used + 1, ok
}

// elementsOf parses { ELEMENTS }, @NAME or one element. Without fields it parses only the data of
// elements. It returns false if packets or time change the elements, or one is not understood.
func elementsOf(text string, names []string, sets map[string]kernel.TableSet) (list []element, ok bool) {
	texts := []string{text}
	if inner, braces := strings.CutPrefix(text, "{"); braces {
		texts = strings.Split(strings.TrimSuffix(inner, "}"), ",")
	} else if strings.HasPrefix(text, "@") {
		s, found := sets[text]
		if !found || s.IsChanging() {
			return nil, false
		}
		texts = s.Elements
	}
	ok = true
	for _, text := range texts {
		key, data, _ := strings.Cut(attributes.ReplaceAllString(" "+strings.TrimSpace(text), ""), " : ")
		e := element{Data: strings.TrimSpace(data)}
		parts := strings.Split(strings.TrimSpace(key), " . ")
		for i, name := range names {
			s, understood := spanOf(parts[min(i, len(parts)-1)], fields[name].parse)
			ok = ok && understood && len(parts) == len(names)
			e.Spans = append(e.Spans, s)
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b element) int {
		return slices.CompareFunc(a.Spans, b.Spans, func(a, b span) int { return strings.Compare(a.From, b.From) })
	})
	return list, ok
}

// spanOf reads VALUE, PREFIX or FROM-TO.
func spanOf(text string, parse func(string) (string, bool)) (span, bool) {
	if v, ok := parse(text); ok {
		return span{v, v}, true
	}
	if p, err := netip.ParsePrefix(text); err == nil {
		last := p.Masked().Addr().AsSlice()
		for bit := p.Bits(); bit < p.Addr().BitLen(); bit++ {
			last[bit/8] |= 0x80 >> (bit % 8)
		}
		from, ok := parse(p.Masked().Addr().String())
		return span{from, string(last)}, ok
	}
	a, b, _ := strings.Cut(text, "-")
	from, okFrom := parse(a)
	to, okTo := parse(b)
	return span{from, to}, okFrom && okTo
}

// target is where a translation leads. Spans without values stand for any address or port.
type target struct{ address, port span }

// targetOf reads ADDRESS, ADDRESS:PORT, [ADDRESS]:PORT, ADDRESS . PORT, :PORT, or nothing. Addresses
// and ports may be ranges.
func targetOf(text string) (t target, ok bool) {
	at, port, hasPort := strings.Cut(text, " . ")
	if i := strings.LastIndex(text, ":"); !hasPort && i >= 0 && (strings.Contains(text, "]:") || strings.Count(text, ":") == 1) {
		at, port, hasPort = text[:i], text[i+1:], true
	}
	ok = true
	if at = strings.Trim(at, "[]"); at != "" {
		t.address, ok = spanOf(at, fields["ip saddr"].parse)
	}
	if hasPort {
		var understood bool
		t.port, understood = spanOf(port, fields["th dport"].parse)
		ok = ok && understood
	}
	return t, ok
}

// matches reports whether the conditions hold that can be evaluated, and returns the choices.
func (r rule) matches(p packet) (choices []element, ok bool) {
	var buf [4]string
	for _, c := range r.Conditions {
		values, has := valuesOf(c.Fields, p, buf[:0])
		if !has || (len(lookup(c.In, values)) > 0) == c.Not {
			return nil, false
		}
	}
	if r.Key == nil {
		return r.Choices, len(r.Choices) > 0
	}
	values, has := valuesOf(r.Key, p, buf[:0])
	if !has {
		return nil, false
	}
	choices = lookup(r.Choices, values)
	return choices, len(choices) > 0
}

// valuesOf appends the values of fields.
func valuesOf(names []string, p packet, values []string) (_ []string, ok bool) {
	for _, name := range names {
		v, has := fields[name].of(p)
		if !has {
			return nil, false
		}
		values = append(values, v)
	}
	return values, true
}

// lookup returns the element that contains the values. Elements are in order of their first span.
func lookup(list []element, values []string) []element {
	end, _ := slices.BinarySearchFunc(list, values[0], func(e element, v string) int {
		if e.Spans[0].From <= v {
			return -1
		}
		return 1
	})
	for i := end - 1; i >= 0; i-- {
		e := list[i]
		all := true
		for j, v := range values {
			all = all && e.Spans[j].contains(v)
		}
		if all {
			return list[i : i+1]
		}
		if len(values) == 1 {
			break // spans of one set do not overlap
		}
	}
	return nil
}

// changed returns the rules that only one of the programs has, by the hook of their chain, "" if other
// chains jump to it. It returns false if the programs differ otherwise, such as in the order of rules.
func changed(was, is program) (rules map[string][]rule, ok bool) {
	rules = map[string][]rule{}
	names := slices.Collect(maps.Keys(is))
	for name := range was {
		if _, both := is[name]; !both {
			names = append(names, name)
		}
	}
	for _, name := range names {
		a, b := was[name], is[name]
		if len(a.Rules) > 0 && len(b.Rules) > 0 && a.Hook != b.Hook {
			return nil, false
		}
		without := func(list, other []rule) (rest []rule) {
			texts := map[string]bool{}
			for _, r := range other {
				texts[fmt.Sprintf("%#v", r)] = true
			}
			for _, r := range list {
				if texts[fmt.Sprintf("%#v", r)] {
					rest = append(rest, r)
				} else {
					hook := cmp.Or(a.Hook, b.Hook)
					rules[hook] = append(rules[hook], r)
				}
			}
			return rest
		}
		if !reflect.DeepEqual(without(a.Rules, b.Rules), without(b.Rules, a.Rules)) {
			return nil, false
		}
	}
	return rules, true
}

// like returns the patterns of the connections that a rule of a hook may match. It returns false if
// these are too many to name.
func (r rule) like(hook string) (list []kernel.Flow, ok bool) {
	var p kernel.Flow
	var family string
	before := hook == "prerouting" || hook == "output"
	to := &p.Original.Destination
	if hook == "postrouting" || hook == "input" {
		to = &p.Reply.Source // translated already
	}
	for _, c := range r.Conditions {
		if c.Not || len(c.Fields) > 1 || len(c.In) != 1 || c.In[0].Spans[0].From != c.In[0].Spans[0].To {
			continue
		}
		header, name, _ := strings.Cut(c.Fields[0], " ")
		value := c.In[0].Spans[0].From
		address, _ := netip.AddrFromSlice([]byte(value))
		switch {
		case name == "nfproto":
			family = value
		case name == "saddr":
			p.Original.Source, ok = netip.AddrPortFrom(address, 0), true
		case name == "daddr" && hook != "":
			*to, ok = netip.AddrPortFrom(address, to.Port()), true
		case name == "dport" && header == "tcp":
			return nil, true
		case name == "dport" && header != "th" && before:
			p.Protocol, ok = protocols[header], true
			*to = netip.AddrPortFrom(to.Addr(), uint16(value[0])<<8|uint16(value[1]))
		}
	}
	if !ok || p.Original.Source.IsValid() || to.Addr().IsValid() {
		return []kernel.Flow{p}, ok
	}
	for name, any := range map[string]netip.Addr{"ipv4": netip.IPv4Unspecified(), "ipv6": netip.IPv6Unspecified()} {
		if family == "" || family == name {
			p.Original.Destination = netip.AddrPortFrom(any, to.Port())
			list = append(list, p)
		}
	}
	return list, true
}
