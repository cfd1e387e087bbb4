package nftables_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
)

// TestReachOfRules compares the policy with nft. Rules that write addresses into packets are spelled
// in random ways. Each that nft accepts is listed: nft then writes it in one way. If the listing has
// a local address, or an address that the kernel computes, the policy has refused the rule; if
// somebody wrote it as it is listed, and it has neither, the policy has allowed it.
func TestReachOfRules(t *testing.T) {
	b := newBench(t)
	r := rand.New(rand.NewPCG(33, 14))
	accepted, refused := 0, 0
	for range 300 {
		s := spelling{Rand: r, six: r.IntN(3) == 0}
		value := &models.Nftables{Family: s.pick("ip", "inet"), Table: "t"}
		if s.six {
			value.Family = s.pick("ip6", "inet")
		}
		s.rule(value)
		listed, err := load(t, b.tables, b.Own(), value)
		if err != nil {
			continue
		}
		accepted++
		policy := models.Reach{Hooks: []string{models.ReachAny}}.Check("nftables/t", value)
		local := leadsAway(listed)
		switch {
		case local && policy == nil:
			t.Errorf("%q is allowed; nft lists it as %q", texts(value), listed)
		case !local && policy != nil && texts(value) == listed:
			t.Errorf("%q is refused: %v", listed, policy)
		case policy != nil:
			refused++
		}
	}
	t.Logf("nft accepted %d rules, of which the policy refused %d", accepted, refused)
	if accepted < 80 || refused < 60 || accepted-refused < 15 {
		t.Error("these are too few to show anything")
	}
}

// spelling writes rules.
type spelling struct {
	*rand.Rand
	six bool
}

func (s spelling) pick(of ...string) string { return of[s.IntN(len(of))] }

// rule adds a rule that writes an address into packets, by whatever statement.
func (s spelling) rule(v *models.Nftables) {
	family, key := "ip", "10.0.0.1"
	if s.six {
		family, key = "ip6", "fd00::1"
	}
	network := key + "/32"
	if s.six {
		network = key + "/128"
	}
	of := s.pick("", "", " "+family)
	chain := &models.Chain{Name: "c", Type: "nat", Hook: "prerouting"}
	var r string
	switch s.IntN(14) {
	case 0, 1, 2:
		r = s.pick("dnat", "tcp dport 80 dnat", "ct status dnat dnat", "meta mark set ct status dnat") + of + s.pick(" to ", " ") + s.address()
	case 3:
		chain.Hook = s.pick("input", "postrouting")
		r = "snat" + of + " to " + s.address()
	case 4, 5:
		r = family + " " + s.pick("d", "d", "s") + "addr set " + s.address() + s.pick("", " counter", " accept")
	case 6:
		chain.Type = "filter"
		r = "dup to " + s.address() + s.pick("", ` device "lo"`)
	case 7:
		chain.Type = "filter"
		r = "tcp dport 80 tproxy" + of + " to " + s.address() + s.pick("", ":90")
	case 8:
		r = s.pick("@nh,128,32", "@ nh , 128 , 32", "@nh,128,16", "@th,16,16", "@ll,240,32") + " set " + s.pick("0x7f000001", "2130706433", "80")
	case 9, 10:
		r = "dnat" + of + " to " + s.pick(family+" saddr", "tcp dport", "numgen inc mod 2") + s.pick(" map { ", " map {") +
			s.pick(key, "80", "0") + s.pick(" : ", ":", ": ", " :") + s.address() + s.pick(" }", "}", ", "+s.pick("fd00::7", "10.0.0.7", "81", "1")+" : "+s.address()+" }")
	case 11:
		r = "dnat" + of + s.pick(" addr . port", " prefix", " interval", "") + " to " + family + " saddr map { " + s.pick(key, network) + " : " + s.address() + s.pick("", " . 80") + " }"
	case 12:
		v.Maps = []*models.NamedMap{{Name: "m", Flags: []string{"dynamic"}}}
		v.Maps[0].Type = map[bool]string{true: "ipv6_addr", false: "ipv4_addr"}[s.six]
		v.Maps[0].Data = v.Maps[0].Type
		r = s.pick("update @m { ", "add @m { ", "add@m {") + family + " saddr" + s.pick(" : ", " :") + s.address() + " }"
	case 13:
		chain.Rules = []string{"accept"}
		typ := map[bool]string{true: "ipv6_addr", false: "ipv4_addr"}[s.six]
		v.Maps = []*models.NamedMap{{Name: "m", Type: "inet_service", Data: typ, Elements: []string{"80" + s.pick(" : ", ": ", " :", ":") + s.address()}}}
		if s.IntN(2) == 0 {
			v.Maps[0].Data += " . inet_service"
			v.Maps[0].Elements[0] += " . 80"
		}
	}
	if r != "" {
		chain.Rules = []string{s.blanks(r)}
	}
	v.Chains = []*models.Chain{chain}
}

// blanks replaces some blanks by tabs or by several.
func (s spelling) blanks(r string) string {
	if s.IntN(3) > 0 {
		return r
	}
	var b strings.Builder
	for _, c := range r {
		if c == ' ' {
			b.WriteString(s.pick(" ", "\t", "  ", " \t"))
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// address is an address in one of the spellings of nft, or something that is computed.
func (s spelling) address() string {
	if s.six {
		a := s.pick("fd00::9", "2001:db8::1", "::1", "::", "fe80::1", "fd00:ec2::254", "0:0::1", "::ffff:127.0.0.1", "::FFFF:7f00:1")
		return s.pick(a, a, a, "["+a+"]", `"`+a+`"`, "("+a+")", a+"/128", "fd00::/10", "fe00::-feff::", "fd00::1-fd00::9", "ip6 saddr", "ip6 daddr | ::1", "ct original ip6 saddr", "rt nexthop")
	}
	a := s.pick("10.0.0.9", "192.0.2.1", "127.0.0.1", "127.9.9.9", "169.254.169.254", "0.0.0.0")
	b := netip.MustParseAddr(a).As4()
	number := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	return s.pick(a, a, a, a, fmt.Sprint(number), fmt.Sprintf("0x%x", number), `"`+a+`"`, "("+a+")", a+"/32", "126.0.0.0/7", "10.0.0.0/24", "100.0.0.1-200.0.0.1", "10.0.0.1-10.0.0.9",
		"10.0.0.1 - 128.0.0.1", "ip saddr", "ip daddr & 0.0.0.0 | 127.0.0.1", "10.0.0.1 | 117.0.0.0", "jhash ip saddr mod 2 offset 2130706432", "numgen inc mod 2 offset 2130706432", "ct original ip saddr", "rt nexthop", "icmp gateway")
}

// load makes the table and returns how nft lists its rule, or its element.
func load(t *testing.T, tables kernel.Tables, ns kernel.NS, v *models.Nftables) (string, error) {
	t.Helper()
	c := v.Chains[0]
	table := kernel.Table{Family: v.Family, Name: v.Table, Chains: []kernel.TableChain{{Name: c.Name, Type: c.Type, Hook: c.Hook, Priority: "0", Policy: "accept", Rules: c.Rules}}}
	for _, m := range v.Maps {
		table.Maps = append(table.Maps, kernel.TableSet{Name: m.Name, Type: m.Type, Data: m.Data, Flags: m.Flags, Elements: m.Elements})
	}
	if err := tables.CreateTable(t.Context(), ns, table); err != nil {
		return "", err
	}
	defer func() {
		if err := tables.DeleteTable(t.Context(), ns, v.Family, v.Table); err != nil {
			t.Fatal(err)
		}
	}()
	got, err := tables.Table(t.Context(), ns, v.Family, v.Table)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Maps) > 0 && len(got.Maps[0].Elements) > 0 {
		return got.Maps[0].Elements[0], nil
	}
	return got.Chains[0].Rules[0], nil
}

// texts returns the rule, or the element.
func texts(v *models.Nftables) string {
	if len(v.Maps) > 0 && len(v.Maps[0].Elements) > 0 {
		return v.Maps[0].Elements[0]
	}
	return v.Chains[0].Rules[0]
}

var (
	writesAddress = regexp.MustCompile(`(?:(?:dnat|(snat)|tproxy|dup)(?: ip6?)?(?: prefix)? to|ip6? (?:daddr|(saddr)) set) ([^ ]+)(?: (.*))?$`)
	writesRaw     = regexp.MustCompile(`@[a-z]+,[0-9]+,[0-9]+ set `)
	mapped        = regexp.MustCompile(`map \{ (.*) \}`)
	updates       = regexp.MustCompile(`(?:add|update) @m \{ (.*) \}`)
	goesOn        = regexp.MustCompile(`^(?:[|&^]|<<|>>)`)
)

// leadsAway reports whether a rule or element as nft lists it writes a local address into packets,
// or one that is computed.
func leadsAway(listed string) bool {
	values := func(elements string, source bool) bool {
		for e := range strings.SplitSeq(elements, ", ") {
			_, value, _ := strings.Cut(e, " : ")
			addr, _, _ := strings.Cut(value, " . ")
			if isLocal(addr, source) {
				return true
			}
		}
		return false
	}
	if m := updates.FindStringSubmatch(listed); m != nil {
		return values(m[1], false)
	}
	if writesRaw.MatchString(listed) {
		return true
	}
	m := writesAddress.FindStringSubmatch(listed)
	if m == nil {
		return strings.Contains(listed, " : ") && values(listed, false)
	}
	source := m[1]+m[2] != ""
	if elements := mapped.FindStringSubmatch(listed); elements != nil {
		return values(elements[1], source)
	}
	return isLocal(m[3], source) || goesOn.MatchString(m[4])
}

// isLocal reports whether an address, a network or a range, which a port may follow, has one of the
// addresses that are local to a host; also if it is none of these.
func isLocal(text string, source bool) bool {
	if text[0] == ':' && !strings.HasPrefix(text, "::") {
		return false
	}
	text = strings.TrimPrefix(text, "[")
	text, _, _ = strings.Cut(text, "]")
	if host, _, has := strings.Cut(text, ":"); has && strings.Contains(host, ".") {
		text = host
	}
	has := func(netip.Addr) bool { return true }
	first, last, isRange := strings.Cut(text, "-")
	if p, err := netip.ParsePrefix(text); err == nil {
		has = p.Contains
	} else if from, err := netip.ParseAddr(first); err == nil && !isRange {
		has = func(a netip.Addr) bool { return a == from.Unmap() }
	} else if to, bad := netip.ParseAddr(last); err == nil && bad == nil {
		has = func(a netip.Addr) bool {
			return a.BitLen() == from.BitLen() && from.Compare(a) <= 0 && a.Compare(to) <= 0
		}
	}
	local := []string{"127.0.0.1", "127.9.9.9", "127.255.255.255", "0.0.0.0", "::1", "::"}
	if !source {
		local = append(local, "169.254.169.254", "fe80::1", "fd00:ec2::254")
	}
	for _, a := range local {
		if has(netip.MustParseAddr(a)) {
			return true
		}
	}
	return false
}
