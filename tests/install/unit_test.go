package install

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const unit = "../../deploy/systemd/plumb-agent.service"

// exposure is the most that systemd-analyze may find in the unit, in tenths of its scale
// from 0 to 10. What is left is what an agent for networks is for.
const exposure = "55"

// TestUnit: systemd understands the unit, and finds it no more exposed than it must be.
func TestUnit(t *testing.T) {
	need(t, "systemd-analyze")
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	// To be verified it needs a program and a manual that are there.
	text = bytes.ReplaceAll(text, []byte("/usr/bin/plumb-agent"), []byte("/bin/true"))
	text = regexp.MustCompile(`(?m)^Documentation=.*\n`).ReplaceAll(text, nil)
	file := filepath.Join(t.TempDir(), "plumb-agent.service")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", file}, {"security", "--no-pager", "--offline=yes", "--threshold=" + exposure, file}} {
		out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
		if err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}

// apart are the options of systemd.exec(5) that give a service a mount namespace.
var apart = regexp.MustCompile(`(?m)^((?:Private|Protect|ReadOnly|ReadWrite|Inaccessible|ExecPaths|NoExec|Bind|TemporaryFile|Mount|Root|ProcSubset|DynamicUser)\w*)=`)

// TestNoMountNamespace: the host sees the namespaces that the agent names, so the unit has
// none of the options that keep its mounts to itself.
func TestNoMountNamespace(t *testing.T) {
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range apart.FindAllStringSubmatch(string(text), -1) {
		t.Errorf("%s= makes a mount namespace", m[1])
	}
}

// rights is intent in the order of the rights that it needs; see [TestRights].
const rights = `intent:
  netns/blue:      {}
  interface/near:  {addresses: [10.62.0.1/24], veth: {peer: far}}
  interface/far:   {namespace: {netns: blue}, veth: {peer: near}}
  proxy/low:       {listen: {protocol: tcp, address: "10.62.0.1:80"}, forward: {protocol: tcp, address: "10.62.0.9:80"}}
  proxy/high:      {listen: {protocol: tcp, address: "10.62.0.1:8080"}, forward: {protocol: tcp, address: "10.62.0.9:80"}}
  interface/pod:   {namespace: {pid: POD}, host_name: eth0, veth: {peer: cable}}
  interface/cable: {veth: {peer: pod}}
  forward/near:    {interface: near}
`

// TestRights: each capability of the unit is needed. Without it, what it is for fails, and
// with all nothing does. Who wants nothing left of the network can say so in between.
// DAC_OVERRIDE is for the processes of proxies, see TestRenounces of plugins/proxy.
func TestRights(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.install(deb(t, "0.1.0~test1"))
	m.write("/tmp/intent.yaml", strings.ReplaceAll(rights, "POD", m.pod()))
	state := func(key string) string { return "agentctl get " + key + " -o template={{.state}}" }
	const ready = "agentctl status -o template={{.state}}"
	_, noLegacy := m.try("iptables-legacy -P FORWARD DROP")
	for _, c := range []struct{ without, ask, says string }{
		{"", "agentctl wait --all --timeout 20s >/dev/null; echo $?", "0"},
		{"NET_ADMIN", state("interface/cable"), "retrying"},
		{"SYS_ADMIN", "systemctl is-active plumb-agent", "activating"},
		{"SYS_PTRACE", state("interface/pod"), "invalid"},
		{"NET_BIND_SERVICE", state("proxy/low"), "retrying"},
		{"NET_RAW", state("forward/near"), "retrying"},
		{"SETPCAP", state("proxy/high"), "retrying"},
		{"SYSLOG", "agentctl status | grep -o 'kills for lack of memory are told without names'", "kills for lack of memory are told without names"},
	} {
		switch c.without {
		case "NET_RAW":
			if noLegacy != nil {
				continue // this kernel has no such tables
			}
		case "SYSLOG":
			if restricted, _ := m.try("cat /proc/sys/kernel/dmesg_restrict"); restricted != "1" {
				continue // this kernel's log is open to everybody
			}
		}
		m.run("systemctl stop plumb-agent; plumb-agent --config /etc/plumb/plumb.yaml cleanup; rm -rf /var/lib/plumb")
		m.expect("ip -br link | cut -d' ' -f1; ls /run/netns 2>/dev/null; pgrep -f '^/usr/bin/plumb-agent'", "lo")
		m.run("mkdir -p /run/systemd/system/plumb-agent.service.d")
		if c.without != "" {
			m.write("/run/systemd/system/plumb-agent.service.d/test.conf", "[Service]\nCapabilityBoundingSet=~CAP_"+c.without+"\n")
		}
		if _, err := m.try("systemctl daemon-reload; systemctl start plumb-agent"); err == nil {
			m.await(ready+" | grep -o ready", "ready")
			m.run("agentctl apply --force -f /tmp/intent.yaml")
		}
		m.await(c.ask, c.says)
	}
}
