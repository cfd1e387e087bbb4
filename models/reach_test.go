package models_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/models"
)

// TestReach: what values may reach of the host with each policy, and what one that
// reaches too far is told: the field, the policy, and what would allow it.
func TestReach(t *testing.T) {
	host := models.Reach{
		IsHost: func(file string) bool { return file == "/proc/1/ns/net" || file == "/run/netns/host" },
		Uplink: func(link string) string { return map[string]string{"eth0": "is a physical device"}[link] },
	}
	with := func(f func(*models.Reach)) models.Reach { r := host; f(&r); return r }
	for name, tc := range map[string]struct {
		reach      models.Reach
		key, value string
		want       string // part of the error, "" for none
	}{
		"microservice": {host, "interface/a", `{"namespace":{"microservice":"web"},"host_name":"eth0","existing":{}}`, ""},
		"named":        {host, "sysctl/a", `{"namespace":{"netns":"blue"},"key":"net.core.somaxconn","value":"1"}`, ""},
		"own bridge":   {host, "interface/a", `{"bridge":{},"addresses":["10.0.0.1/24"]}`, ""},
		"a path":       {host, "interface/a", `{"namespace":{"path":"/run/netns/blue"},"dummy":{}}`, ""},
		"a path elsewhere": {host, "interface/a", `{"namespace":{"path":"/tmp/ns"},"dummy":{}}`,
			`namespace.path: /tmp/ns is not where namespaces may be named by path: the agent's policy for values from etcd has path=/run/netns/*|`},
		"what allows it":       {host, "interface/a", `{"namespace":{"path":"/tmp/ns"},"dummy":{}}`, `policy: "interface/a path=/tmp/ns"`},
		"deeper":               {host, "interface/a", `{"namespace":{"path":"/run/netns/a/b"},"dummy":{}}`, "namespace.path"},
		"allowed":              {with(func(r *models.Reach) { r.Paths = []string{"/tmp/*"} }), "interface/a", `{"namespace":{"path":"/tmp/ns"},"dummy":{}}`, ""},
		"no paths":             {with(func(r *models.Reach) { r.Paths = []string{"none"} }), "route/a", `{"namespace":{"path":"/run/netns/blue"},"destination":"10.0.0.0/8","type":"blackhole"}`, "has path=none"},
		"the host by path":     {host, "nftables/a", `{"namespace":{"path":"/run/netns/host"}}`, "is the network namespace of the host"},
		"the host by its pid":  {host, "sysctl/a", `{"namespace":{"pid":1},"key":"net.ipv4.ip_forward","value":"1"}`, `namespace.pid: process 1 is in the network namespace of the host`},
		"the host by /proc":    {host, "interface/a", `{"namespace":{"path":"/proc/1/ns/net"},"dummy":{}}`, `namespace.path: /proc/1/ns/net is in the network namespace of the host`},
		"any pid":              {with(func(r *models.Reach) { r.PIDs = "any" }), "interface/a", `{"namespace":{"pid":1},"dummy":{}}`, ""},
		"a pid":                {host, "interface/a", `{"namespace":{"pid":77},"dummy":{}}`, ""},
		"no pids":              {with(func(r *models.Reach) { r.PIDs = "none" }), "interface/a", `{"namespace":{"pid":77},"dummy":{}}`, `policy: "interface/a pid=isolated"`},
		"no pids by /proc":     {with(func(r *models.Reach) { r.PIDs = "none" }), "interface/a", `{"namespace":{"path":"/proc/77/ns/net"},"dummy":{}}`, "pid=none"},
		"an uplink":            {host, "interface/eth0", `{"existing":{}}`, `existing: no value may take over eth0, which is a physical device: the agent's policy for values from etcd has existing=virtual; who runs the host allows it with the setting policy: "interface/eth0 existing=eth0"`},
		"an uplink taken over": {host, "interface/eth0", `{"adopt":true,"bridge":{}}`, "adopt: no value may take over eth0"},
		"an uplink made":       {host, "interface/eth0", `{"bridge":{}}`, ""},
		"an uplink by name":    {host, "interface/a", `{"host_name":"eth0","existing":{}}`, "take over eth0"},
		"no uplink":            {host, "interface/dummy0", `{"existing":{}}`, ""},
		"an allowed uplink":    {with(func(r *models.Reach) { r.Existing = []string{"eth*"} }), "interface/eth0", `{"existing":{}}`, ""},
		"only some":            {with(func(r *models.Reach) { r.Existing = []string{"eth*"} }), "interface/dummy0", `{"existing":{}}`, "has existing=eth*"},
		"a setting":            {host, "sysctl/a", `{"key":"net.ipv4.conf.all.rp_filter","value":"1"}`, ""},
		"a setting of all":     {host, "sysctl/a", `{"key":"net.core.bpf_jit_enable","value":"0"}`, `key: net.core.bpf_jit_enable may not be set in the namespace of the agent`},
		"with slashes":         {host, "sysctl/a", `{"key":"net/core/bpf_jit_enable","value":"0"}`, "may not be set"},
		"an allowed setting":   {with(func(r *models.Reach) { r.Sysctls = []string{"net.core.*"} }), "sysctl/a", `{"key":"net/core/somaxconn","value":"9"}`, ""},
		"nat":                  {host, "nftables/a", `{"chains":[{"name":"a","type":"nat","hook":"postrouting"},{"name":"b","type":"filter","hook":"forward"},{"name":"c"}]}`, ""},
		"input":                {host, "nftables/a", `{"chains":[{"name":"a","type":"nat","hook":"prerouting"},{"name":"b","type":"filter","hook":"input","policy":"drop"}]}`, `chains[1].hook: a chain of the namespace of the agent may not have the hook filter:input`},
		"an allowed hook":      {with(func(r *models.Reach) { r.Hooks = []string{"filter:*"} }), "nftables/a", `{"chains":[{"name":"b","type":"filter","hook":"input"}]}`, ""},
		"a flowtable":          {host, "nftables/a", `{"flowtables":[{"name":"fast","devices":["a"]}]}`, `flowtables[0]: no flowtable may be in the namespace of the agent`},
		"an allowed flowtable": {with(func(r *models.Reach) { r.Hooks = []string{"flowtable:*"} }), "nftables/a", `{"flowtables":[{"name":"fast","devices":["a"]}]}`, ""},
		"ingress":              {host, "nftables/a", `{"family":"netdev","chains":[{"name":"b","type":"filter","hook":"ingress","devices":["a"]}]}`, `may not have the hook filter:ingress`},
		"a key of ours":        {host, "interface/a", `{"wireguard":{"private_key_file":"/etc/wireguard/a.key"}}`, ""},
		"a key elsewhere":      {host, "interface/a", `{"namespace":{"netns":"blue"},"wireguard":{"private_key_file":"/srv/id"}}`, `wireguard.private_key_file: /srv/id is not where files with keys may be named: the agent's policy for values from etcd has key=/etc/plumb/keys/*|/etc/wireguard/*`},
		"an allowed key":       {with(func(r *models.Reach) { r.KeyFiles = []string{"/keys/*"} }), "interface/a", `{"wireguard":{"private_key_file":"/keys/a"}}`, ""},
		"input of a pod":       {host, "nftables/a", `{"namespace":{"microservice":"web"},"chains":[{"name":"b","type":"filter","hook":"input"}]}`, ""},
		"a port":               {host, "proxy/a", `{"listen":{"address":"0.0.0.0:80"},"forward":{"namespace":{"microservice":"web"},"address":"127.0.0.1:80"}}`, ""},
		"loopback of the host": {host, "proxy/a", `{"listen":{"namespace":{"microservice":"web"},"address":"127.0.0.1:80"},"forward":{"address":"127.0.0.1:2379"}}`,
			`forward.address: no value may forward to 127.0.0.1:2379 of the agent's own namespace or files: the agent's policy for values from etcd has proxy=listen:tcp:*|listen:udp:*|forward:tcp:*|forward:udp:*|listen:unix:/run/plumb-proxy/*|forward:unix:/run/plumb-proxy/*; who runs the host allows it with the setting policy: "proxy/a proxy=forward:loopback:127.0.0.1:2379"`},
		"an allowed service":     {with(func(r *models.Reach) { r.Proxies = []string{"listen:tcp:*", "forward:loopback:127.0.0.1:80"} }), "proxy/a", `{"listen":{"address":"0.0.0.0:8080"},"forward":{"address":"127.0.0.1:80"}}`, ""},
		"another in the network": {host, "proxy/a", `{"listen":{"namespace":{"microservice":"web"},"protocol":"udp","address":"127.0.0.1:53"},"forward":{"address":"192.0.2.53:53"}}`, ""},
		"a socket file":          {host, "proxy/a", `{"listen":{"address":"/run/plumb-proxy/web.sock"},"forward":{"address":"/run/plumb-proxy/other.sock"}}`, ""},
		"a socket of a daemon":   {host, "proxy/a", `{"listen":{"namespace":{"microservice":"web"},"address":"@docker"},"forward":{"address":"/run/docker.sock"}}`, `"proxy/a proxy=forward:unix:/run/docker.sock"`},
		"a place of a daemon":    {host, "proxy/a", `{"listen":{"address":"/run/docker.sock"},"forward":{"namespace":{"microservice":"web"},"address":"127.0.0.1:80"}}`, `"proxy/a proxy=listen:unix:/run/docker.sock"`},
		"a name of the host":     {host, "proxy/a", `{"listen":{"namespace":{"microservice":"web"},"address":"127.0.0.1:80"},"forward":{"address":"@daemon"}}`, `"proxy/a proxy=forward:abstract:@daemon"`},
		"a name of a pod":        {host, "proxy/a", `{"listen":{"address":"0.0.0.0:80"},"forward":{"namespace":{"microservice":"web"},"address":"@daemon"}}`, ""},
	} {
		msg, err := models.Decode(tc.key, []byte(tc.value))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err = tc.reach.Check(tc.key, msg)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s:\n got %v\nwant %s", name, err, tc.want)
		}
		if err != nil && !errors.As(err, new(*models.InvalidError)) {
			t.Errorf("%s: %T", name, err)
		}
	}
}
