package agent

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink"
)

func inode(file string) uint64 { _, i := identityOf(file); return i }

func reachWith(t *testing.T, policy ...string) *reach {
	t.Helper()
	p, err := parsePolicies(policy)
	if err != nil {
		t.Fatal(err)
	}
	k, err := netlink.New(netlink.Options{NamedDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return newReach(k, t.TempDir(), p.reach)
}

// TestReachOfThisHost judges by the real kernel: who is in the host's namespace, and
// which link carries the default route.
func TestReachOfThisHost(t *testing.T) {
	isolated := exec.Command("unshare", "-n", "sleep", "1000")
	if err := isolated.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { isolated.Process.Kill(); isolated.Wait() }()
	pid := isolated.Process.Pid
	_, own := identityOf("/proc/self/ns/net")
	for end := time.Now().Add(time.Minute); inode(fmt.Sprintf("/proc/%d/ns/net", pid)) == own; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it has no namespace of its own")
		}
	}
	for _, tc := range []struct {
		policy     []string
		key, value string
		want       string
	}{
		{nil, "interface/a", fmt.Sprintf(`{"namespace":{"pid":%d},"dummy":{}}`, pid), ""},
		{nil, "interface/a", fmt.Sprintf(`{"namespace":{"path":"/proc/%d/ns/net"},"dummy":{}}`, pid), ""},
		{nil, "interface/a", `{"namespace":{"pid":1},"dummy":{}}`, "namespace.pid: process 1 is in the network namespace of the host"},
		{nil, "interface/a", fmt.Sprintf(`{"namespace":{"pid":%d},"dummy":{}}`, os.Getpid()), "network namespace of the host or of the agent"},
		{nil, "interface/a", `{"namespace":{"path":"/proc/thread-self/ns/net"},"dummy":{}}`, "network namespace of the host or of the agent"},
		{[]string{"* pid=any"}, "interface/a", `{"namespace":{"pid":1},"dummy":{}}`, ""},
		{[]string{"* pid=any", "interface/ pid=none"}, "interface/a", `{"namespace":{"pid":1},"dummy":{}}`, "pid=none"},
		{[]string{"interface/ pid=none", "interface/a pid=any"}, "interface/a", `{"namespace":{"pid":1},"dummy":{}}`, ""},
		{[]string{"interface/a pid=any"}, "interface/ab", `{"namespace":{"pid":1},"dummy":{}}`, "pid=isolated"},
		{[]string{"* existing=none"}, "interface/a", `{"existing":{}}`, "existing=none"},
		{[]string{"* existing=a|b*"}, "interface/bc", `{"existing":{}}`, ""},
		{[]string{"* sysctl=net.ipv4.ip_forward"}, "sysctl/a", `{"key":"net.ipv4.tcp_ecn","value":"1"}`, "sysctl=net.ipv4.ip_forward"},
		{[]string{"proxy/ proxy=listen:tcp:*|forward:loopback:127.0.0.1:80"}, "proxy/a", `{"listen":{"address":"0.0.0.0:8080"},"forward":{"address":"127.0.0.1:80"}}`, ""},
		{[]string{"* proxy=none"}, "proxy/a", `{"listen":{"address":"0.0.0.0:8080"},"forward":{"address":"10.0.0.1:80"}}`, "proxy=none"},
		{[]string{"* hook=none"}, "nftables/a", `{"chains":[{"name":"a","type":"nat","hook":"postrouting"}]}`, "hook=none"},
		{nil, "interface/a", `{"dummy":{},"nonsense":1}`, "nonsense"},
	} {
		_, err := reachWith(t, tc.policy...).decode(tc.key, []byte(tc.value))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%q %s %s:\n got %v\nwant %s", tc.policy, tc.key, tc.value, err, tc.want)
		}
	}
}

// TestReachWhenItIsOpened: a process may get a number that was judged when nobody had
// it. What a selector leads to is judged again.
func TestReachWhenItIsOpened(t *testing.T) {
	one := &models.Namespace{In: &models.Namespace_Pid{Pid: 1}}
	file := &models.Namespace{In: &models.Namespace_Path{Path: "/run/netns/late"}}
	host, other := inode("/proc/self/ns/net"), uint64(1)
	for _, tc := range []struct {
		policy []string
		in     *models.Namespace
		inode  uint64
		want   bool
	}{
		{nil, one, host, true}, {nil, one, other, false}, {nil, file, host, true}, {nil, file, other, false},
		{[]string{"interface/x pid=any"}, one, host, false}, {[]string{"interface/x pid=any"}, file, host, true},
		{[]string{"* path=/run/netns/*"}, file, host, true}, {[]string{"* path=/run/netns/late"}, file, host, false},
		{[]string{"* path=/run/netns/late"}, one, host, true}, {[]string{"* path=any"}, file, host, false},
	} {
		if got := reachWith(t, tc.policy...).refused(tc.in, tc.inode); got != tc.want {
			t.Errorf("%q %v %d: %v", tc.policy, tc.in, tc.inode, got)
		}
	}
}

// TestUplinks: the links that the host itself needs are not to be taken over.
func TestUplinks(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		cmd := exec.Command("unshare", "-n", os.Args[0], "-test.run=^TestUplinks$", "-test.v")
		cmd.Env = append(os.Environ(), inNamespace+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	for _, args := range []string{"link add up0 type bridge", "addr add 192.0.2.2/24 dev up0", "link set up0 up", "route add default via 192.0.2.1",
		"link add side0 type bridge", "addr add 198.51.100.2/24 dev side0", "link set side0 up", "route add default via 198.51.100.1 metric 100 proto 200"} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v %s", args, err, out)
		}
	}
	r := reachWith(t)
	for link, want := range map[string]string{"up0": "carries a default route that is not ours", "side0": "", "lo": "", "eth7": "has the name of a physical device", "tun7": ""} {
		if got := r.uplink(link); got == "" != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", link, got, want)
		}
	}
}

const inNamespace = "PLUMB_TEST_IN_NAMESPACE"

func FuzzPolicies(f *testing.F) {
	for _, s := range []string{"* audit=1h", "interface/ existing=eth*|bond0 pid=any", "a/ path=/x/[a-z]*", "a hook=nat:*", "a path=[", "a/ pause=x", "a sysctl=|"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		p, err := parsePolicies([]string{line})
		if err != nil {
			return
		}
		r := reach{rules: p.reach}
		for _, rule := range p.reach {
			_ = r.of(string(rule.keys)+"x").Check("interface/x", &models.Interface{Namespace: &models.Namespace{In: &models.Namespace_Path{Path: "/x/y"}}})
		}
	})
}
