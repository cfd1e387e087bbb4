package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestIncumbentsStay: calls and operators want what a running container has, before
// a restart of the agent, after one, and after a crash. Nothing of the container, nor of its
// network, changes; who wants it is refused, and named who has it.
func TestIncumbentsStay(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	c1 := h.Mount("c1")
	h.Mount("c2")
	h.Start()
	const own = `{"cniVersion":"1.0.0","name":"blue","type":"plumb-cni","pool":"10.62.0.0/24","bridge":"br-blue","runtimeConfig":{%}}`
	with := func(runtime string) string { return strings.Replace(own, "%", runtime, 1) }
	as := func(config string, change ...string) string { return strings.NewReplacer(change...).Replace(config) }
	named := func(network string) string { return `"name":"` + network + `"` }
	const port = `"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]`
	a := add(t, h, "c1", with(port))
	if a.IPs[0].Address != "10.62.0.2/24" {
		t.Fatalf("c1 has %s", a.IPs[0].Address)
	}
	picture := func() string {
		return c1.IP(t, "-d address") + c1.IP(t, "route show table all")
	}
	before, inside := h.Exact(), picture()
	stays := func(what string) {
		t.Helper()
		if diff := host.Diff(before, h.Exact()); diff != "" {
			t.Errorf("%s changed the host:\n%s", what, diff)
		}
		if now := picture(); now != inside {
			t.Errorf("%s changed the container:\n%s\nbefore\n%s", what, now, inside)
		}
		if err := ping(c1, a.IPs[0].Gateway); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	calls := map[string]struct{ netns, config, names string }{
		"the address":             {"c2", with(`"ips":["10.62.0.2/24"]`), "ipclaim/cni:blue:"},
		"the gateway's address":   {"c2", with(`"ips":["10.62.0.1"]`), "gateway"},
		"the port":                {"c2", with(port), "port"},
		"the bridge":              {"c2", as(with(""), named("blue"), named("green"), "10.62", "10.63"), "network blue"},
		"the pool":                {"c2", as(with(""), named("blue"), named("green"), "br-blue", "br-green"), "network blue"},
		"the name in the network": {"c1", with(""), "interface/cni:blue:"},
		"the name in another one": {"c1", as(with(""), named("blue"), named("green"), "br-blue", "br-green", "10.62", "10.63"), "interface/cni:blue:"},
	}
	keys := map[string]string{
		"interface/x": `{"namespace":{"path":"` + filepath.Join(h.NetnsDir(), "c1") + `"},"host_name":"eth0","bridge":{}}`,
		"interface/y": `{"host_name":"br-blue","bridge":{}}`,
		"ipclaim/z":   `{"pool":"cni:blue","address":"10.62.0.2"}`,
		"ipclaim/gw":  `{"pool":"cni:blue","address":"10.62.0.1"}`,
	}
	for key, value := range keys {
		h.Put(key, value)
	}
	for _, restart := range []func(){func() {}, func() { h.Stop(); h.Start() }, func() { h.Kill9(); h.Start() }} {
		restart()
		h.AwaitSettled()
		stays("an operator")
		for key := range keys {
			if k := h.Key(key); k.State == "configured" {
				t.Errorf("%s is %s: %s", key, k.State, k.Reason)
			}
		}
		for what, c := range calls {
			r := h.CNI(host.CNICall{Command: "ADD", Container: "other", IfName: "eth0", Netns: filepath.Join(h.NetnsDir(), c.netns), Config: c.config})
			if r.Code != 1 || !strings.Contains(r.Out, `"code": 11`) || !strings.Contains(r.Out, c.names) {
				t.Errorf("%s: exit %d\n%s", what, r.Code, r.Out)
			}
			stays(what)
		}
	}
	for key := range keys {
		h.Delete(key)
	}
	if r := call(h, "DEL", "c1", with(port)); r.Code != 0 {
		t.Errorf("DEL: %s%s", r.Out, r.Err)
	}
	add(t, h, "c2", with(`"ips":["10.62.0.2/24"]`))
}
