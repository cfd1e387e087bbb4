package models_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/models"
)

// TestReachOfLocalServices: no value leads packets to the loopback of the host or to the
// metadata service of a cloud, by whatever kind and however the address is written, unless
// the policy says so; one rule of the policy is for all kinds.
func TestReachOfLocalServices(t *testing.T) {
	forms := []struct{ key, value, field string }{
		{"proxy/a", `{"listen":{"address":"192.0.2.1:80"},"forward":{"address":"%[1]s:80"}}`, "forward.address"},
		{"nftables/a", `{"chains":[{"name":"a","type":"nat","hook":"prerouting","rules":["tcp dport 80 dnat to %[1]s"]}]}`, "chains[0].rules[0]"},
		{"nftables/a", `{"chains":[{"name":"a","type":"nat","hook":"prerouting","rules":["tcp dport 80 dnat %[2]s to %[1]s:2379"]}]}`, "chains[0].rules[0]"},
		{"nftables/a", `{"chains":[{"name":"a","type":"nat","hook":"prerouting","rules":["dnat to tcp dport map { 80 : %[3]s }"]}]}`, "chains[0].rules[0]"},
		{"nftables/a", `{"chains":[{"name":"a","rules":["%[2]s daddr set %[3]s"]}]}`, "chains[0].rules[0]"},
		{"nftables/a", `{"maps":[{"name":"m","type":"inet_service","data":"%[4]s","elements":["80 : %[3]s"]}]}`, "maps[0].elements[0]"},
	}
	check := func(reach models.Reach, key, value string) error {
		msg, err := models.Decode(key, []byte(value))
		if err != nil {
			return err
		}
		return reach.Check(key, msg)
	}
	for addr, class := range map[string]string{
		"127.0.0.1": "loopback", "127.9.9.9": "loopback", "0.0.0.0": "loopback", "::1": "loopback", "::": "loopback", "::ffff:127.0.0.1": "loopback",
		"169.254.169.254": "linklocal", "169.254.1.1": "linklocal", "fe80::1": "linklocal", "fd00:ec2::254": "linklocal", "::ffff:169.254.169.254": "linklocal",
		"192.0.2.7": "", "10.127.0.1": "", "fd00::1": "", "::ffff:192.0.2.7": "",
	} {
		six, family, typ := addr, "ip", "ipv4_addr"
		if strings.Contains(addr, ":") {
			six, family, typ = "["+addr+"]", "ip6", "ipv6_addr"
		}
		for _, f := range forms {
			if f.key == "proxy/a" && (strings.HasPrefix(addr, "::ffff:") || addr == "::" || addr == "0.0.0.0") {
				continue // refused in any namespace
			}
			value := fmt.Sprintf(f.value, six, family, addr, typ)
			err := check(models.Reach{}, f.key, value)
			switch {
			case class == "" && err != nil:
				t.Errorf("%s: %v", value, err)
			case class != "" && (err == nil || !strings.Contains(err.Error(), f.field+": ") || !strings.Contains(err.Error(), "proxy=forward:"+class+":")):
				t.Errorf("%s: %v", value, err)
			}
			if err := check(models.Reach{Proxies: []string{"listen:tcp:*", "forward:tcp:*", "forward:" + class + ":*"}}, f.key, value); class != "" && err != nil {
				t.Errorf("%s is allowed: %v", value, err)
			}
			if err := check(models.Reach{Proxies: models.ProxiesInside()}, f.key, value); err != nil {
				t.Errorf("%s in a namespace that is not the host's: %v", value, err)
			}
			inside := strings.Replace(strings.Replace(value, `{"chains"`, `{"namespace":{"microservice":"web"},"chains"`, 1), `{"maps"`, `{"namespace":{"microservice":"web"},"maps"`, 1)
			inside = strings.Replace(inside, `"forward":{`, `"forward":{"namespace":{"microservice":"web"},`, 1)
			if err := check(models.Reach{}, f.key, inside); err != nil {
				t.Errorf("%s in a container: %v", inside, err)
			}
		}
	}
	for key, refused := range map[string]bool{"net.ipv4.conf.all.route_localnet": true, "net/ipv4/conf/eth0/route_localnet": true, "net.ipv4.conf.all.forwarding": false} {
		value := fmt.Sprintf(`{"key":%q,"value":"1"}`, key)
		if err := check(models.Reach{}, "sysctl/a", value); (err != nil) != refused {
			t.Errorf("%s: %v", key, err)
		}
		if err := check(models.Reach{Sysctls: []string{"net.ipv4.*"}}, "sysctl/a", value); err != nil {
			t.Errorf("%s is allowed: %v", key, err)
		}
	}
	// What only matches an address is free.
	if err := check(models.Reach{}, "nftables/a", `{"chains":[{"name":"a","type":"nat","hook":"prerouting","rules":["ip daddr 127.0.0.1 dnat to 10.0.0.1","ip saddr 169.254.0.0/16 drop"]}]}`); err != nil {
		t.Error(err)
	}
}

// TestReachOfRules: what a rule writes into packets is an address, a range or a map to addresses.
// Everything else may be any address and needs the policy. descriptors/nftables compares with nft.
func TestReachOfRules(t *testing.T) {
	for rule, want := range map[string]string{ // "" is allowed
		`tcp dport 80 dnat to 10.0.0.1:8080`:                                   "",
		`tcp dport 80 dnat ip to 10.0.0.1`:                                     "",
		`dnat ip6 to [fd00::1]:80`:                                             "",
		`dnat to :8080`:                                                        "",
		`dnat to 10.0.0.1-10.0.0.9 random`:                                     "",
		`dnat to <claim:web>`:                                                  "",
		`dnat to <claim:web>:80`:                                               "",
		`dnat to numgen inc mod 2 map { 0 : 10.0.0.1, 1 : 10.0.0.2 }`:          "",
		`dnat to tcp dport map @backends`:                                      "",
		`dnat ip to ip saddr . tcp dport map { 10.0.0.1 . 80 : 10.0.0.2 . 8 }`: "",
		`dnat ip prefix to ip daddr map { 10.0.0.0/24 : 10.0.1.0/24 }`:         "",
		`tcp dport 80 redirect to :8080`:                                       "",
		`snat to 10.0.0.1`:                                                     "",
		`snat to 169.254.1.1`:                                                  "",
		`ip saddr 127.0.0.1 drop`:                                              "",
		`ip daddr set 10.0.0.1 counter accept`:                                 "",
		`ether daddr set aa:bb:cc:00:00:01`:                                    "",
		`meta mark set ct mark`:                                                "",
		`tcp option maxseg size set rt mtu`:                                    "",
		`ct status dnat accept`:                                                "",
		`ct status { dnat, snat } ip saddr 10.0.0.1 accept`:                    "",
		`ct status & dnat == dnat counter`:                                     "",
		`log prefix "dnat to 127.0.0.1 "`:                                      "",
		`ip saddr @set drop`:                                                   "",
		`update @seen { ip saddr : jump c }`:                                   "",

		`snat to 127.0.0.1`:                              "forward:loopback:127.0.0.1",
		`ip saddr set 127.0.0.7`:                         "forward:loopback:127.0.0.7",
		`dnat to 126.0.0.0/7`:                            "forward:loopback:126.0.0.0-127.255.255.255",
		`dnat to 169.0.0.1-170.0.0.1`:                    "forward:linklocal:169.0.0.1-170.0.0.1",
		"dnat\tto\t127.0.0.1":                            "forward:loopback:127.0.0.1",
		`dnat 127.0.0.1`:                                 "forward:loopback:127.0.0.1",
		`dnat to "127.0.0.1"`:                            "forward:loopback:127.0.0.1",
		`meta mark set ct status dnat to 127.0.0.1`:      "forward:loopback:127.0.0.1",
		`ip daddr set 10.0.0.1 ip saddr set 127.0.0.1`:   "forward:loopback:127.0.0.1",
		`dnat to ip saddr map { 10.0.0.1: 127.0.0.1 }`:   "forward:loopback:127.0.0.1",
		`update @targets { ip saddr : 127.0.0.1 }`:       "forward:loopback:127.0.0.1",
		`fwd to "lo"`:                                    "forward:loopback:lo",
		`dnat to ip saddr map {10.0.0.1:127.0.0.1}`:      "forward:computed",
		`dnat to(127.0.0.1)`:                             "forward:computed",
		`dnat to 127.1`:                                  "forward:computed",
		`dnat to 0x7f000001`:                             "forward:computed",
		`dnat to 2130706433`:                             "forward:computed",
		`dnat to tcp dport map { 80 : 2130706433 }`:      "forward:computed",
		`dnat to 10.0.0.1 | 117.0.0.0`:                   "forward:computed",
		`dnat to ip saddr`:                               "forward:computed",
		`dnat to jhash ip saddr mod 2 offset 2130706432`: "forward:computed",
		`ip daddr set ip saddr ip saddr set tcp dport map { 80 : 10.0.0.1 }`: "forward:computed",
		`@nh,128,32 set 0x7f000001`:               "forward:computed",
		`@ nh , 128 , 32 set 2130706433`:          "forward:computed",
		`update @targets { ip saddr : ip daddr }`: "forward:computed",
	} {
		value := &models.Nftables{
			Chains: []*models.Chain{{Name: "c", Rules: []string{rule}}},
			Maps:   []*models.NamedMap{{Name: "targets", Type: "ipv4_addr", Data: "ipv4_addr"}, {Name: "seen", Type: "ipv4_addr", Data: "verdict"}},
		}
		switch err := (models.Reach{}).Check("nftables/a", value); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", rule, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), "proxy="+want+`"`)):
			t.Errorf("%s: %v, want proxy=%s", rule, err, want)
		}
		if err := (models.Reach{Proxies: models.ProxiesInside()}).Check("nftables/a", value); err != nil {
			t.Errorf("%s in a namespace that is not the host's: %v", rule, err)
		}
	}
	for element, want := range map[string]string{`80 : 10.0.0.1 . 80`: "", `80: 127.0.0.1 . 80`: "forward:loopback:127.0.0.1", `80:127.0.0.1 . 80`: "forward:computed", `80 : 2130706433 . 80`: "forward:computed"} {
		value := &models.Nftables{Maps: []*models.NamedMap{{Name: "m", Type: "inet_service", Data: "ipv4_addr . inet_service", Elements: []string{element}}}}
		if err := (models.Reach{}).Check("nftables/a", value); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "proxy="+want+`"`) {
			t.Errorf("%s: %v, want proxy=%s", element, err, want)
		}
	}
	for network, want := range map[string]string{"10.0.0.0/8": "", "169.254.0.0/16": "forward:linklocal:169.254.0.0-169.254.255.255", "127.0.0.0/24": "forward:loopback:127.0.0.0-127.0.0.255"} {
		if err := (models.Reach{}).Check("ippool/a", &models.IPPool{Network: network}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "proxy="+want+`"`) {
			t.Errorf("%s: %v, want proxy=%s", network, err, want)
		}
	}
}
