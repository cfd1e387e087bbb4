package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// releases holds what releases have left behind, a directory for each. It is never
// written anew: what hosts have on their disks does not change either.
//
//	setup.json     on which host the agent ran, and how
//	state.tar.gz   its state directory, after it was told to stop
//	etcd.txt       what its etcd held, a line for a key and one for its value
//	keys.txt       what it said of each key of intent, an object per line
//	history.txt    what it said that it had done
const releases = "testdata/releases"

var recorded = flag.String("record", "", "keep what TestReleaseState leaves behind as that of a release, such as 0.1.0")

// TestReleaseState has an agent leave behind what a release does, and starts another on the
// host where it ran: it knows all again, and nothing is written to the kernel. With -record
// the state is kept for TestReleases.
func TestReleaseState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := host.New(t, host.Options{NoEngine: true, Fast: true})
	if *recorded != "" {
		h.Label = "release-" + *recorded
	}
	liveAsRelease(t, h, dir)
	attached, before := h.MustCtl("cni", "-o", "json"), h.Exact()
	h.Stop()
	pack(t, h.StateDir(), filepath.Join(dir, "state.tar.gz"))

	if err := os.RemoveAll(h.StateDir()); err != nil {
		t.Fatal(err)
	}
	unpack(t, filepath.Join(dir, "state.tar.gz"), h.StateDir())
	said := len(h.Log())
	h.Start()
	h.AwaitSettled()
	checkKeys(t, h, fromLines[known](t, filepath.Join(dir, "keys.txt")))
	checkHistory(t, h, dir)
	if now := h.MustCtl("cni", "-o", "json"); now != attached {
		t.Errorf("attachments:\n%s", host.Diff(attached, now))
	}
	if n := h.KernelWrites(); n != 0 {
		t.Errorf("%d kernel writes:\n%s", n, h.Done())
	}
	if diff := host.Diff(before, h.Exact()); diff != "" {
		t.Errorf("the start changed the host:\n%s", diff)
	}
	checkCalm(t, h, h.Log()[said:])
	if *recorded != "" && !t.Failed() {
		if err := os.CopyFS(filepath.Join(releases, *recorded), os.DirFS(dir)); err != nil { // also if it is there
			t.Fatal(err)
		}
	}
}

// TestReleases has this agent read what each release has left behind.
func TestReleases(t *testing.T) {
	t.Parallel()
	dirs, err := filepath.Glob(releases + "/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no release has left anything behind in %s (%v)", releases, err)
	}
	for _, dir := range dirs {
		keys := fromLines[known](t, filepath.Join(dir, "keys.txt"))
		// Of the old host nothing is left, as after a boot.
		t.Run(filepath.Base(dir)+"/state directory", func(t *testing.T) {
			h := releaseHost(t, dir, host.Options{})
			unpack(t, filepath.Join(dir, "state.tar.gz"), h.StateDir())
			h.Start()
			h.Eventually("what nobody has confirmed is taken back", func() error {
				return same("", h.Key(trial).State)
			})
			confirmed := slices.DeleteFunc(slices.Clone(keys), func(k known) bool { return k.Key == trial })
			checkKeys(t, h, confirmed)
			checkHistory(t, h, dir)
			checkCalm(t, h, h.Log())
		})
		t.Run(filepath.Base(dir)+"/etcd", func(t *testing.T) {
			h := releaseHost(t, dir, host.Options{Etcd: etcdtest.Start(t).URL()})
			restore(t, h, filepath.Join(dir, "etcd.txt"))
			h.Start()
			// Nobody knows who was given which address, and the first one is free again.
			fresh := slices.Clone(keys)
			for i := range fresh {
				if fresh[i].Key == "ipclaim/web" {
					fresh[i].Address = "10.5.0.2/24"
				}
			}
			checkKeys(t, h, fresh)
			checkCalm(t, h, h.Log())
		})
	}
}

// trial is a key that waits to be confirmed when the agent of a release ends. Nobody comes.
const trial = "interface/trial"

// setup is on which host an agent ran, and how.
type setup struct {
	Label string   `json:"label"`
	IP    []string `json:"ip"`   // what others did there with ip(8) before
	Args  []string `json:"args"` // further flags of the agent
}

// releaseHost is a host as the release had it, but for what its agent made.
func releaseHost(t *testing.T, dir string, o host.Options) *host.Host {
	t.Helper()
	var s setup
	if err := json.Unmarshal(readFile(t, filepath.Join(dir, "setup.json")), &s); err != nil {
		t.Fatal(err)
	}
	alone(t, s.Label)
	o.NoEngine, o.Fast = true, true
	h := host.New(t, o)
	s.prepare(t, h)
	return h
}

// alone waits until no other run of these tests on this machine has an agent with the label,
// which is in the data and so the same for all.
func alone(t *testing.T, label string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(os.TempDir(), "plumb-e2e-"+label+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
}

func (s setup) prepare(t *testing.T, h *host.Host) {
	t.Helper()
	h.Label, h.Args = s.Label, s.Args
	for _, command := range s.IP {
		h.Own.IP(t, command)
	}
}

// manyKinds is intent of all kinds. What not every kernel has waits for a namespace that
// never comes, so that its state is the same everywhere and its value is read all the same.
var manyKinds = []struct{ key, value string }{
	{"netns/blue", `{}`},
	{"interface/br", `{"bridge":{"ageing_time":60},"addresses":["10.5.0.1/24","fd05::1/64"]}`},
	{"interface/web", `{"namespace":{"netns":"blue"},"host_name":"eth0","mac_address":"02:00:00:00:05:01","addresses":["claim:web"],"veth":{"peer":"web-x"}}`},
	{"interface/web-x", `{"master":"br","veth":{"peer":"web"}}`},
	{"interface/tap", `{"tap":{"owner":4242},"master":"br"}`},
	{"interface/vx", `{"vxlan":{"vni":61,"local":"10.5.0.1","remote":"10.5.0.77"},"master":"br"}`},
	{"interface/mac", `{"namespace":{"netns":"blue"},"host_name":"eth1","addresses":["10.5.2.4/24"],"macvlan":{"parent":"br"}}`},
	{"interface/blue-lo", `{"namespace":{"netns":"blue"},"addresses":["192.0.2.80/32"],"loopback":{}}`},
	{"interface/uplink", `{"existing":{},"mtu":1300,"addresses":["192.0.2.11/24"]}`},
	{"interface/dummy", `{"namespace":{"netns":"never"},"dummy":{},"addresses":["10.5.7.1/24"]}`},
	{"interface/vlan", `{"namespace":{"netns":"never"},"vlan":{"parent":"dummy","id":7}}`},
	{"interface/vrf", `{"namespace":{"netns":"never"},"vrf":{"table":4001}}`},
	{"interface/bond", `{"namespace":{"netns":"never"},"bond":{"mode":"active-backup"}}`},
	{"interface/gre", `{"namespace":{"netns":"never"},"gre":{"local":"192.0.2.1","remote":"192.0.2.2","key":7}}`},
	{"interface/held", `{"tap":{}}`},
	{"interface/bad", `{"tap":{},"mtu":7}`},
	{"interface/gone", `{"tap":{}}`},
	{"route/web", `{"interface":"web","destination":"10.9.0.0/16","gateway":"10.5.0.1","metric":7}`},
	{"route/both", `{"destination":"10.7.0.0/16","nexthops":[{"interface":"br","gateway":"10.5.0.2","weight":3},{"interface":"uplink","gateway":"192.0.2.1"}]}`},
	{"route/shared", `{"destination":"10.8.0.0/16","nexthop":"isp"}`},
	{"route/hole", `{"destination":"10.0.0.0/8","type":"blackhole","metric":100}`},
	{"route/later", `{"interface":"later","destination":"10.10.0.0/16"}`},
	{"rule/red", `{"priority":1000,"from":"10.6.0.0/24","table":4001}`},
	{"nexthop/isp", `{"id":10,"interface":"uplink","gateway":"192.0.2.1"}`},
	{"address/extra", `{"interface":"br","address":"10.5.1.1/24","label":"br:x"}`},
	{"neighbor/remote", `{"interface":"br","address":"10.5.0.77","mac_address":"02:00:00:00:05:77"}`},
	{"fdb/flood", `{"interface":"vx","mac_address":"00:00:00:00:00:00","address":"192.0.2.7"}`},
	{"sysctl/forward", `{"key":"net.ipv4.ip_forward","value":"1"}`},
	{"sysctl/loose", `{"key":"net.ipv4.conf.IFNAME.rp_filter","value":"2","interface":"br"}`},
	{"nftables/filter", `{"namespace":{"netns":"blue"},"chains":[{"name":"in","type":"filter","hook":"input","policy":"accept","rules":["ip saddr <claim:web> counter accept"]}]}`},
	{"ipclaim/web", `{"pool":"site"}`},
	{"ipclaim/fixed", `{"pool":"site","address":"10.5.0.50"}`},
	{"proxy/web", `{"listen":{"address":"127.0.0.1:8080"},"forward":{"namespace":{"netns":"blue"},"address":"127.0.0.1:80"}}`},
}

// liveAsRelease runs an agent twice, with intent of many kinds and a bit of history, and
// writes down what it says in the end. The agent is left running.
func liveAsRelease(t *testing.T, h *host.Host, dir string) {
	t.Helper()
	s := setup{Label: h.Label, Args: []string{"--policy", "interface/held pause=maintenance"},
		IP: []string{"link add uplink type veth peer name far", "link set far up", "link set uplink up"}}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "setup.json", string(text)+"\n")
	s.prepare(t, h)
	h.Start()
	store := operator(t, h)
	// A claim that came first and is gone: who knows no leases would give its address.
	store.put("ippool/site", `{"network":"10.5.0.0/24","gateway":"10.5.0.1"}`)
	store.put("ipclaim/first", `{"pool":"site"}`)
	h.AwaitConfigured("ipclaim/first")
	for _, x := range manyKinds {
		store.put(x.key, x.value)
	}
	h.AwaitConfigured("ipclaim/web", "interface/gone")
	store.delete("ipclaim/first")
	store.put("sysctl/typo", `{"key":"net.ipv4.ip_forwarding","value":"1"}`)
	h.Await("retrying", "sysctl/typo")
	netlinktest.Mount(t, filepath.Join(h.Dir, "container"))
	if r := h.CNI(host.CNICall{Command: "ADD", Container: "c1", IfName: "eth0", Netns: filepath.Join(h.Dir, "container"), Config: blue}); r.Code != 0 {
		t.Fatalf("ADD: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	h.Stop()

	h.Start()
	store.delete("sysctl/typo")
	store.delete("interface/gone")
	write(t, h.Dir, "change.yaml", "intent: {interface/br: {bridge: {ageing_time: 90}, addresses: [10.5.0.1/24, 10.5.0.9/24]}}\n")
	h.MustCtl("apply", "-f", filepath.Join(h.Dir, "change.yaml"), "-m", "a second address", "--wait", "--timeout", "60s")
	write(t, h.Dir, "trial.yaml", "intent: {"+trial+": {tap: {}}}\n")
	h.MustCtl("apply", "-f", filepath.Join(h.Dir, "trial.yaml"), "--confirm", "1m")
	h.AwaitConfigured(trial)
	h.AwaitSettled()
	write(t, dir, "etcd.txt", dump(t, h))
	write(t, dir, "keys.txt", inLines(t, knownKeys(t, h)))
	write(t, dir, "history.txt", inLines(t, pastOf(t, h)))
}

// known is what an agent says of a key of intent. Address is what a claim was given.
type known struct {
	Key     string          `json:"key"`
	State   string          `json:"state"`
	Reason  string          `json:"reason,omitempty"`
	Address string          `json:"address,omitempty"`
	Desired json.RawMessage `json:"desired,omitempty"`
}

// knownKeys are the keys of operators. Those of attachments go with their containers.
func knownKeys(t *testing.T, h *host.Host) (all []known) {
	t.Helper()
	for _, k := range h.Keys() {
		if k.Origin != "etcd" {
			continue
		}
		var given struct{ Address string }
		if k.Kind == "ipclaim" && len(k.Metadata) > 0 { // once it has an address
			if err := json.Unmarshal(k.Metadata, &given); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, known{k.Key, k.State, k.Reason, given.Address, k.Desired})
	}
	return all
}

// checkKeys sees that the agent wants what the release wanted, and gets as far with it. What
// came too early for the kernel is tried again.
func checkKeys(t *testing.T, h *host.Host, want []known) {
	t.Helper()
	h.Within(30*time.Second, "the keys of the release", func() error {
		return same(inLines(t, want), inLines(t, knownKeys(t, h)))
	})
}

// past is what an agent says of a transaction.
type past struct {
	Seq    uint64 `json:"seq"`
	Source string `json:"source"`
	Note   string `json:"note,omitempty"`
	// Earlier: of a former run.
	Earlier bool `json:"earlier,omitempty"`
	Done    []struct {
		Op    string `json:"op"`
		Key   string `json:"key"`
		Error string `json:"error,omitempty"`
	} `json:"done,omitempty"`
}

func pastOf(t *testing.T, h *host.Host) (all []past) {
	t.Helper()
	if err := json.Unmarshal([]byte(h.MustCtl("history", "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// checkHistory sees that the agent tells the history of the release before its own.
func checkHistory(t *testing.T, h *host.Host, dir string) {
	t.Helper()
	want, got := fromLines[past](t, filepath.Join(dir, "history.txt")), pastOf(t, h)
	for i := range want {
		want[i].Earlier = true
	}
	if err := same(inLines(t, want), inLines(t, got[:min(len(want), len(got))])); err != nil {
		t.Error("history: ", err)
	}
}

// checkCalm sees that the agent complains about nothing that it found, neither in its status
// nor in this log. Operations that fail are judged by the states of keys, and that a change is
// taken back is no damage.
func checkCalm(t *testing.T, h *host.Host, log string) {
	t.Helper()
	var status struct {
		State   string
		Reasons []string
	}
	if err := json.Unmarshal([]byte(h.MustCtl("status", "-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	if status.State != "ready" || len(status.Reasons) > 0 {
		t.Errorf("%s: %v", status.State, status.Reasons)
	}
	for line := range strings.Lines(log) {
		complaint := strings.Contains(line, " level=WARN ") || strings.Contains(line, " level=ERROR ")
		if complaint && !strings.Contains(line, `msg="operation failed"`) && !strings.Contains(line, " part=confirm ") {
			t.Error(line)
		}
	}
}

// dump is all that the host's etcd holds for the label, but for the sign of life of the
// agent, which goes with it.
func dump(t *testing.T, h *host.Host) string {
	t.Helper()
	prefix := "/plumb/" + h.Label + "/"
	r, err := operator(t, h).Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, kv := range r.Kvs {
		if string(kv.Key) != prefix+"agent" {
			fmt.Fprintf(&b, "%s\n%s\n", kv.Key, kv.Value)
		}
	}
	return b.String()
}

// restore writes a dump into the host's etcd.
func restore(t *testing.T, h *host.Host, path string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(string(readFile(t, path)), "\n"), "\n")
	store := operator(t, h)
	for i := 0; i+1 < len(lines); i += 2 {
		store.commit(clientv3.OpPut(lines[i], lines[i+1]))
	}
}

// inLines is a list with an object per line.
func inLines[E any](t *testing.T, list []E) string {
	t.Helper()
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	for _, x := range list {
		if err := to.Encode(x); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func fromLines[E any](t *testing.T, path string) (list []E) {
	t.Helper()
	for d := json.NewDecoder(bytes.NewReader(readFile(t, path))); d.More(); {
		var x E
		if err := d.Decode(&x); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		list = append(list, x)
	}
	return list
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// pack makes an archive of a directory, without times and owners: the same files give the
// same bytes.
func pack(t *testing.T, dir, to string) {
	t.Helper()
	file, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zip := gzip.NewWriter(file)
	archive := tar.NewWriter(zip)
	for _, name := range filesBelow(t, dir) {
		text := readFile(t, filepath.Join(dir, name))
		err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))})
		if err == nil {
			_, err = archive.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
}

// unpack makes the directory of an archive.
func unpack(t *testing.T, from, dir string) {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(readFile(t, from)))
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(zip); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		var text []byte
		if err == nil {
			text, err = io.ReadAll(archive)
		}
		path := filepath.Join(dir, head.Name)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
