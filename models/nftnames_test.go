package models

import (
	"fmt"
	"strings"
	"testing"
)

// TestByName: simple comparisons with the name of a link are written by name; all else is
// left as it is.
func TestByName(t *testing.T) {
	for rule, want := range map[string]string{
		"iif eth0 drop":                               "iifname eth0 drop",
		`iif "eth0" drop`:                             `iifname "eth0" drop`,
		"meta iif eth0 drop":                          "meta iifname eth0 drop",
		"iif != eth0 drop":                            "iifname != eth0 drop",
		"oif == br0.7 counter accept":                 "oifname == br0.7 counter accept",
		"iif { eth0, eth1 } drop":                     "iifname { eth0, eth1 } drop",
		`iif != { "eth0","eth1" } drop`:               `iifname != { "eth0","eth1" } drop`,
		"iif eth0 oif eth1 accept":                    "iifname eth0 oifname eth1 accept",
		"iif eth0":                                    "iifname eth0",
		"ip saddr 10.0.0.1 iif eth0 oif != eth1 drop": "ip saddr 10.0.0.1 iifname eth0 oifname != eth1 drop",
		"iif lo accept":                               "",
		`iif "lo" accept`:                             "",
		"iif != lo drop":                              "",
		"iif 5 drop":                                  "",
		"iif { 5, 7 } drop":                           "",
		"iif { eth0, 7 } drop":                        "",
		"iif vmap { eth0 : drop }":                    "",
		"iif @links drop":                             "",
		"iif . ip saddr { eth0 . 10.0.0.1 } drop":     "",
		"ip saddr . iif { 10.0.0.1 . eth0 } drop":     "",
		"fib saddr . iif oif missing drop":            "",
		"fib daddr . iif oif eth0 drop":               "",
		"fib saddr oif eth0 drop":                     "",
		"iifname eth0 drop":                           "",
		`iifname "eth*" drop`:                         "",
		`log prefix "x" counter`:                      "",
		"meta mark set iif map { eth0 : 1 }":          "",
		"add @seen { iif . ip saddr }":                "",
	} {
		if want == "" {
			want = rule
		}
		if got := ByName(rule); got != want {
			t.Errorf("%s\n got %s\nwant %s", rule, got, want)
		}
	}
}

// TestResolves: the words that may be names which nft resolves when it loads a table.
func TestResolves(t *testing.T) {
	for _, tc := range []struct {
		table *Nftables
		want  string
	}{
		{&Nftables{Chains: []*Chain{{Rules: []string{"tcp dport 22 accept", "iif lo accept", "iifname eth0 drop"}}}}, "[] [] [] false"},
		{&Nftables{Chains: []*Chain{{Rules: []string{"iif eth0 drop"}}}}, "[] [] [] true"},
		{&Nftables{Chains: []*Chain{{Rules: []string{"iif vmap { eth0 : drop }"}}}}, "[drop eth0 iif vmap] [] [] false"},
		{&Nftables{Chains: []*Chain{{Rules: []string{`fwd to "eth1"`}}}}, "[eth1 fwd to] [] [] false"},
		{&Nftables{Sets: []*NamedSet{{Type: "iface_index", Elements: []string{"eth0", `"eth1"`}}}}, "[eth0 eth1] [] [] false"},
		{&Nftables{Maps: []*NamedMap{{Type: "mark", Data: "iface_index", Elements: []string{"1 : eth0"}}}}, "[1 eth0] [] [] false"},
		{&Nftables{Chains: []*Chain{{Rules: []string{"meta skuid { app, 7 } drop"}}}}, "[] [app skuid] [] false"},
		{&Nftables{Sets: []*NamedSet{{Type: "uid", Elements: []string{"app"}}}}, "[] [app] [] false"},
		{&Nftables{Chains: []*Chain{{Rules: []string{`socket cgroupv2 level 2 "a/b" drop`}}}}, "[] [] [2 a/b cgroupv2 drop level socket] false"},
	} {
		n := tc.table.Resolves()
		if got := fmt.Sprint(n.Links, n.Accounts, n.Cgroups, n.ByName); got != tc.want {
			t.Errorf("%v\n got %s\nwant %s", tc.table, got, tc.want)
		}
	}
}

// TestNoHosts: the name of a host is refused, where nft would ask the resolver for it.
func TestNoHosts(t *testing.T) {
	for text, bad := range map[string]bool{
		"ip saddr localhost drop": true, "ip daddr != www.example.com drop": true, `ip6 saddr "db" drop`: true, "dnat to web:80": true, "snat ip to web": true,
		"ip saddr 10.0.0.1 drop": false, "ip6 saddr fe80::1 drop": false, "ip6 daddr dead:beef::/32 drop": false, "ip saddr @set drop": false,
		"ip saddr { 10.0.0.1, 10.0.0.2 } drop": false, "ip saddr <claim:web> drop": false, "ip saddr map { 10.0.0.1 : 1 }": false,
		"dnat to numgen inc mod 2 map { 0 : 10.0.0.1 }": false, "ip saddr . ip daddr { 10.0.0.1 . 10.0.0.2 } drop": false, "dnat ip to 10.0.0.1:80": false,
		"ip saddr and 255.255.0.0 == 10.0.0.0 drop": false, "ip saddr vmap @m": false, "ip saddr != @s drop": false, "dnat to ip saddr map @m": false,
		"dnat ip6 to [fd00::1]:80": false, "ip saddr set 10.0.0.1": false, "arp saddr ip 10.0.0.1 drop": false,
		"update @ssh { ip saddr limit rate over 10/minute } drop": false, "add @seen { ip saddr timeout 1m }": false, "add @seen { ip saddr . tcp dport counter }": false,
		"add @seen { ip6 saddr ct count over 3 } reject": false,
	} {
		value := &Nftables{Chains: []*Chain{{Name: "a", Rules: []string{text}}}}
		err := Validate("nftables/a", value)
		if got := err != nil && strings.Contains(err.Error(), "is the name of a host"); got != bad {
			t.Errorf("%s: %v", text, err)
		}
	}
	for element, bad := range map[string]bool{"localhost": true, "db.example": true, "10.0.0.1": false, "10.0.0.0/8": false, "<claim:web>": false} {
		err := Validate("nftables/a", &Nftables{Sets: []*NamedSet{{Name: "s", Type: "ipv4_addr", Elements: []string{element}}}})
		if got := err != nil && strings.Contains(err.Error(), "is the name of a host"); got != bad {
			t.Errorf("element %s: %v", element, err)
		}
	}
}
