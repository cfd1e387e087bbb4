package install

import (
	"compress/gzip"
	"debug/buildinfo"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// intent is a small network of everything that needs a right of its own: a namespace that
// the agent names, one of a process of another user, links, a table, a setting, a device,
// and proxies, one at a port below 1024.
const intent = `intent:
  netns/blue:       {}
  interface/a:      {namespace: {netns: blue}, host_name: eth0, addresses: [10.61.0.1/24], veth: {peer: b}}
  interface/b:      {namespace: {pid: POD}, host_name: eth0, addresses: [10.61.0.2/24], veth: {peer: a}}
  interface/near:   {addresses: [10.62.0.1/24], veth: {peer: far}}
  interface/far:    {namespace: {netns: blue}, addresses: [10.62.0.2/24], veth: {peer: near}}
  interface/tap:    {tap: {}}
  route/blue:       {interface: near, destination: 10.61.0.0/24, gateway: 10.62.0.2}
  sysctl/forward:   {key: net.ipv4.ip_forward, value: "1"}
  nftables/web:     {family: inet, chains: [{name: c, type: filter, hook: forward, priority: filter, rules: ["ip saddr 10.61.0.0/24 accept"]}]}
  proxy/web:        {listen: {protocol: tcp, address: "10.62.0.1:80"}, forward: {protocol: tcp, address: "10.61.0.2:8080", namespace: {netns: blue}}}
  proxy/file:       {listen: {protocol: unix, address: /run/plumb-proxy/web.sock}, forward: {protocol: tcp, address: "10.61.0.2:8080", namespace: {netns: blue}}}
`

// picture is what the kernel has of it, and the processes of the proxies.
const picture = `for n in host blue pod; do
	case $n in
	host) in= ;;
	blue) in="ip netns exec blue" ;;
	pod) in="nsenter --net=/proc/$(systemctl show -P MainPID pod)/ns/net" ;;
	esac
	echo "== $n"; $in ip -o link; $in ip -4 -o addr; $in ip -4 route
done
nft -a list ruleset; cat /proc/sys/net/ipv4/ip_forward; ls -i /run/plumb-proxy; pgrep -a -f '^/usr/bin/plumb-agent proxy-child'`

// built waits until the network is as wanted, and returns its picture.
func (m machine) built() string {
	m.t.Helper()
	m.await("agentctl status -o template={{.state}}", "ready")
	m.run("agentctl wait --all --timeout 30s")
	m.expect("ip netns exec blue busybox ping -c 1 -W 5 10.61.0.2 | grep -c '1 packets received'", "1")
	m.expect("busybox nc 10.62.0.1 80 </dev/null", "hello")
	if got, err := m.ask("/run/plumb-proxy/web.sock"); got != "hello\n" {
		m.t.Errorf("the socket file: %q, %v", got, err)
	}
	return m.run(picture)
}

// untouched checks that an agent that has started since has changed nothing.
func (m machine) untouched(before string) {
	m.t.Helper()
	if diff := host.Diff(before, m.built()); diff != "" {
		m.t.Errorf("the network has changed:\n%s", diff)
	}
	m.expect("agentctl metrics | grep ^plumb_kernel_writes_total", "plumb_kernel_writes_total 0")
}

// pod starts a process of somebody else in a network namespace of its own, like that of a
// container, and tells its number once it is there.
func (m machine) pod() string {
	m.t.Helper()
	m.run("systemd-run --quiet --unit pod -p Type=exec -p PrivateNetwork=yes -p User=nobody sleep infinity")
	return m.run("systemctl show -P MainPID pod")
}

// TestPackage is the life of an installed Plumb, with pings all along.
func TestPackage(t *testing.T) {
	t.Parallel()
	first, second := deb(t, "0.1.0~test1"), deb(t, "0.1.0~test2")
	m := boot(t)
	m.install(first)
	m.expect("systemctl is-active plumb-agent", "active")
	m.expect("systemctl is-enabled plumb-agent", "enabled")
	m.expect("stat -c %a /run/plumb /var/lib/plumb /etc/plumb/keys | xargs", "700 700 700")
	m.expect("agentctl version -o 'template={{.agentctl.version}} {{.agent.version}}'", "0.1.0~test1 0.1.0~test1")
	m.expect("plumb-agent --version | sed 's/ (commit [0-9a-f]*)$//'", "0.1.0~test1")
	m.expect("CNI_COMMAND=VERSION /opt/cni/bin/plumb-cni </dev/null | grep -c supportedVersions", "1")
	m.expect("dpkg-query -f '${Conffiles}' -W plumb | cut -d' ' -f2", "/etc/plumb/plumb.yaml")
	m.expect("zcat /usr/share/man/man1/agentctl.1.gz | head -1", `.TH AGENTCTL 1 "" "Plumb 0.1.0~test1"`)

	m.write("/tmp/intent.yaml", strings.ReplaceAll(intent, "POD", m.pod()))
	m.run("agentctl apply -f /tmp/intent.yaml && agentctl wait --all --timeout 30s")
	m.run("systemd-run --quiet --unit server nsenter --net=/proc/$(systemctl show -P MainPID pod)/ns/net busybox nc -ll -p 8080 -e echo hello")
	m.await("ip netns exec blue busybox nc -w 1 10.61.0.2 8080 </dev/null", "hello")
	before := m.built()
	// Names of namespaces are seen from either side, whoever gives them.
	m.run("ip netns add theirs")
	m.await("agentctl get netns/theirs -o template={{.state}}", "observed")
	unharmed := host.Ping(t, m.file("/run/netns/blue"), "10.61.0.2")

	// An upgrade keeps what its owner has configured, and every packet.
	m.run("echo 'history: 9' >>/etc/plumb/plumb.yaml")
	m.install(second)
	m.expect("agentctl version -o template={{.agent.version}}", "0.1.0~test2")
	m.expect("plumb-agent --config /etc/plumb/plumb.yaml --print-config | grep ^history", `history: "9"`)
	m.untouched(before)

	// Who has switched it off finds it so after the next one.
	m.run("systemctl disable --quiet --now plumb-agent")
	m.install(second)
	m.expect("systemctl is-active plumb-agent", "inactive")
	m.expect("systemctl is-enabled plumb-agent", "disabled")
	m.run("systemctl enable --quiet --now plumb-agent")
	m.untouched(before)

	// An agent that hangs is ended, and another one started.
	m.run(`mkdir -p /run/systemd/system/plumb-agent.service.d
		printf '[Service]\nWatchdogSec=2s\nRestartSec=0\n' >/run/systemd/system/plumb-agent.service.d/test.conf
		systemctl daemon-reload; systemctl restart plumb-agent; kill -STOP $(systemctl show -P MainPID plumb-agent)`)
	m.await("test $(systemctl show -P NRestarts plumb-agent) -gt 0 && systemctl is-active plumb-agent", "active")
	m.run("rm -r /run/systemd/system/plumb-agent.service.d; systemctl daemon-reload; systemctl restart plumb-agent")
	m.untouched(before)

	// Removed, it leaves network, configuration and state; it is as before when it is back.
	m.run("dpkg -r plumb")
	m.expect("pgrep -c -f '^/usr/bin/plumb-agent (--|.embedded)'", "0")
	m.expect("ls -d /etc/plumb/plumb.yaml /var/lib/plumb/ledger", "/etc/plumb/plumb.yaml\n/var/lib/plumb/ledger")
	if diff := host.Diff(before, m.run(picture)); diff != "" {
		t.Errorf("removing the package has changed the network:\n%s", diff)
	}
	m.install(first)
	m.untouched(before)

	// Purged, it has forgotten all but the network, which the next one knows by its marks,
	// and takes over with the intent; only the table is written anew.
	m.run("dpkg -P plumb")
	m.expect("ls -d /etc/plumb /var/lib/plumb /usr/bin/plumb-agent /etc/systemd/system/multi-user.target.wants/plumb-agent.service 2>/dev/null", "")
	if diff := host.Diff(before, m.run(picture)); diff != "" {
		t.Errorf("purging the package has changed the network:\n%s", diff)
	}
	m.install(second)
	m.expect("systemctl is-active plumb-agent", "active")
	m.await("agentctl get netns/blue -o template={{.state}}", "leftover")
	m.await("agentctl get proxy/web -o template={{.state}}", "leftover")
	m.run("agentctl apply -f /tmp/intent.yaml && agentctl resync --accept")
	m.built()
	unharmed()
}

// TestNotices: the package names every module that its programs are linked with, for who
// passes them on.
func TestNotices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.Command("dpkg-deb", "-x", deb(t, "0.1.0~test1"), dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	packed, err := os.Open(dir + "/usr/share/doc/plumb/third-party-notices.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"/usr/bin/plumb-agent", "/usr/bin/agentctl", "/opt/cni/bin/plumb-cni"} {
		info, err := buildinfo.ReadFile(dir + program)
		if err != nil {
			t.Fatal(err)
		}
		if len(info.Deps) == 0 && program != "/opt/cni/bin/plumb-cni" {
			t.Errorf("%s does not tell what it is linked with", program)
		}
		for _, m := range info.Deps {
			if name := m.Path + " " + m.Version; !strings.Contains(string(text), "\n"+name+"\n") {
				t.Errorf("%s is linked with %s, and nothing tells its licence", program, name)
			}
		}
	}
	if !strings.Contains(string(text), "\nthe standard library of Go\n") {
		t.Error("nothing tells the licence of the standard library")
	}
}
