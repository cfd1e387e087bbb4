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
	for _, odd := range []string{"127.1", "0x7f000001", "0x7f.1", "127.0.1"} {
		if err := check(models.Reach{}, "nftables/a", fmt.Sprintf(forms[1].value, odd)); err == nil || !strings.Contains(err.Error(), "is no address as it is commonly written") {
			t.Errorf("%s: %v", odd, err)
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
