package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestNobodyElseGetsIn: the run directory and the sockets are root's, and the
// agent listens on nothing else.
func TestNobodyElseGetsIn(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true})
	h.Start()
	h.Put("interface/br", `{"bridge":{},"addresses":["10.1.0.1/24"]}`)
	h.AwaitConfigured("interface/br")
	for path, want := range map[string]fs.FileMode{
		h.RunDir(): 0o700 | fs.ModeDir, h.StateDir(): 0o700 | fs.ModeDir,
		filepath.Join(h.RunDir(), "agent.sock"): 0o600 | fs.ModeSocket,
		filepath.Join(h.RunDir(), "etcd.sock"):  0o600 | fs.ModeSocket,
	} {
		if st, err := os.Stat(path); err != nil || st.Mode() != want {
			t.Errorf("%s is %v, want %v (%v)", path, st.Mode(), want, err)
		}
	}
	if got := listeners(t, h.AgentPid()); got != "" {
		t.Errorf("the agent listens on\n%s", got)
	}
	// The directory alone decides, not that of the test around it.
	if err := os.Chmod(h.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, socket := range []string{"agent.sock", "etcd.sock"} {
		for uid, want := range map[int]error{0: nil, 65534: unix.EACCES} {
			if err := connectAs(uid, filepath.Join(h.RunDir(), socket)); !errors.Is(err, want) {
				t.Errorf("user %d at %s: %v, want %v", uid, socket, err, want)
			}
		}
	}
}

// connectAs connects to a socket with a user's rights to files.
func connectAs(uid int, socket string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Setfsuid(uid); err != nil {
		return err
	}
	defer func() { _ = unix.Setfsuid(0) }()
	return unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
}

// listeners are the sockets of a process on which others could reach it, in
// whatever namespace: TCP and UDP ones, and abstract unix ones.
func listeners(t *testing.T, pid int) string {
	t.Helper()
	inodes := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		target, _ := os.Readlink(fd)
		if m := regexp.MustCompile(`^socket:\[(\d+)\]$`).FindStringSubmatch(target); m != nil {
			inodes[m[1]] = true
		}
	}
	if len(inodes) == 0 {
		t.Fatal("the agent has no socket at all")
	}
	var b strings.Builder
	namespaces := map[string]bool{}
	tables, _ := filepath.Glob("/proc/[0-9]*/net")
	for _, dir := range tables {
		ns, err := os.Readlink(filepath.Join(filepath.Dir(dir), "ns/net"))
		if err != nil || namespaces[ns] {
			continue
		}
		namespaces[ns] = true
		for _, name := range []string{"tcp", "tcp6", "udp", "udp6", "raw", "raw6", "unix"} {
			data, _ := os.ReadFile(filepath.Join(dir, name))
			for line := range strings.Lines(string(data)) {
				f := strings.Fields(line)
				switch {
				case name == "unix" && len(f) > 7 && strings.HasPrefix(f[7], "@") && inodes[f[6]],
					name != "unix" && len(f) > 9 && inodes[f[9]]:
					fmt.Fprint(&b, name, " ", line)
				}
			}
		}
	}
	return b.String()
}

// TestOneAgentOnly: a second agent for the same label or the same state
// directory says why it does not start, and disturbs nobody.
func TestOneAgentOnly(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	h.Start()
	h.Put("interface/br", `{"bridge":{}}`)
	h.AwaitConfigured("interface/br")
	pid := fmt.Sprint(h.AgentPid())
	other := t.TempDir()
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"label", []string{"--state-dir", other + "/state", "--run-dir", other + "/run"},
			"plumb-agent: another plumb-agent (pid PID) uses the label LABEL: stop it, or choose another with --label and --state-dir\n"},
		{"state directory", []string{"--label", "e2e-other", "--run-dir", other + "/run"},
			"plumb-agent: another plumb-agent (pid PID) uses the state directory STATE: stop it, or choose another with --label and --state-dir\n"},
		{"cleanup", nil, "plumb-agent: another plumb-agent (pid PID) uses the label LABEL: stop it, or choose another with --label and --state-dir\n"},
	} {
		args := append(h.AgentArgs(), c.args...)
		if c.name == "cleanup" {
			args = append([]string{"cleanup"}, append(h.AgentArgs(), "--state-dir", other+"/state")...)
		}
		ctx, cancel := context.WithTimeout(t.Context(), host.Patience)
		defer cancel()
		cmd := h.AgentCommand(ctx, args...)
		var story bytes.Buffer
		cmd.Stderr = &story
		err := cmd.Run()
		got := strings.NewReplacer(pid, "PID", h.Label, "LABEL", h.StateDir(), "STATE").Replace(story.String())
		if code := cmd.ProcessState.ExitCode(); code != 2 || got != c.want {
			t.Errorf("%s: exit %d (%v)\n%swant\n%s", c.name, code, err, got, c.want)
		}
	}
	h.Put("interface/br2", `{"bridge":{}}`)
	h.AwaitConfigured("interface/br", "interface/br2")
	ends(t, h, "one-agent-end", other)
}

// TestStop: told to stop, in the middle of work or idle, the agent ends within
// its limit, says success, and leaves the network.
func TestStop(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, Fast: true, NoEngine: true})
	h.Start()
	for i := range 20 {
		h.Put(fmt.Sprint("route/r", i), fmt.Sprintf(`{"destination":"10.%d.0.0/16","type":"blackhole"}`, i))
	}
	h.AwaitSettled()
	before := h.Exact()
	t.Logf("idle: %v", h.Stop())
	if diff := host.Diff(before, h.Exact()); diff != "" {
		t.Errorf("stopping changed the host:\n%s", diff)
	}
	h.Launch()
	h.Eventually("it answers", func() error { _, err := h.HTTP("/livez"); return err })
	for i := range 20 {
		h.Put(fmt.Sprint("route/r", i), fmt.Sprintf(`{"destination":"10.%d.0.0/16","type":"prohibit"}`, i))
	}
	t.Logf("at work: %v", h.Stop())
	if r := h.Once(); r.Code != 0 || r.Out != "" {
		t.Errorf("once: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	h.Start()
	for i := range 20 {
		h.AwaitConfigured(fmt.Sprint("route/r", i))
	}
}

// TestOnce reconciles once: 0 when all is configured, 1 when it is not, with
// the reason, 2 when it cannot begin.
func TestOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	h.Args = []string{"--intent", dir}
	write(t, dir, "site.yaml", "key: interface/br\nvalue: {bridge: {}}\n")
	if r := h.Once(); r.Code != 0 || r.Out != "" {
		t.Errorf("all is configured: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if h.Own.Show(t, "br") == nil {
		t.Error("there is no bridge")
	}
	write(t, dir, "more.yaml", "key: interface/web\nvalue: {master: nobody, tap: {}}\n---\nkey: interface/bad\nvalue: {tap: {}, mtu: 7}\n")
	if r := h.Once(); r.Code != 1 || r.Out != "interface/bad invalid: mtu: must be from 68 to 65535, not 7\n"+
		"interface/web pending: needs interface/nobody\n" {
		t.Errorf("not all is configured: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	h.Args = []string{"--etcd", "http://127.0.0.1:1"}
	if r := h.Once(); r.Code != 1 || r.Out != "not everything is configured: etcd is down: no etcd answers at http://127.0.0.1:1: nothing listens there (connection refused)\n" {
		t.Errorf("no store: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if err := os.RemoveAll(filepath.Join(h.StateDir(), "etcd")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "more.yaml", "key: interface/more\nvalue: {bridge: {}}\n")
	h.Args = []string{"--intent", dir}
	if r := h.Once(); r.Code != 1 || !strings.Contains(r.Out, "the store is not the known one: ") || h.Own.Show(t, "more") == nil {
		t.Errorf("an unknown store: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	h.Args = []string{"--intent", dir + "/none"}
	if r := h.Once(); r.Code != 2 || r.Err != "plumb-agent: intent "+dir+"/none: want a directory that is there\n" {
		t.Errorf("no intent: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	h.Args = []string{"--docker", "bad://x"}
	if r := h.Once(); r.Code != 2 || !strings.HasPrefix(r.Err, "plumb-agent: ") || strings.Contains(r.Err, "goroutine") {
		t.Errorf("a bad setting: exit %d\n%s%s", r.Code, r.Out, r.Err)
	} else {
		t.Log(r.Err)
	}
	h.Args = nil
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFiles: intent in files stands behind that in etcd, key by key, and comes
// back when that goes.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	h.Args = []string{"--intent", dir}
	write(t, dir, "site.yaml", "intent:\n  interface/br: {bridge: {}, addresses: [10.1.0.1/24]}\n  interface/tap: {tap: {}, master: br}\n")
	h.Start()
	h.AwaitConfigured("interface/br", "interface/tap")
	address := func(want string) {
		t.Helper()
		h.Eventually("the bridge has "+want, func() error {
			if got := fmt.Sprint(host.Dig(anyOf(host.Show(t, h.Own, "-4 addr show dev br")), "addr_info", "local")); got != want {
				return errors.New(got)
			}
			return nil
		})
	}
	address("[[10.1.0.1]]")
	if k := h.Key("interface/br"); k.Origin != "file" {
		t.Errorf("origin %q", k.Origin)
	}
	h.Put("interface/br", `{"bridge":{},"addresses":["10.1.0.2/24"]}`)
	address("[[10.1.0.2]]")
	h.AwaitConfigured("interface/br", "interface/tap")
	if k := h.Key("interface/br"); k.Origin != "etcd" {
		t.Errorf("origin %q", k.Origin)
	}
	golden(t, "shadowed", strings.ReplaceAll(h.MustCtl("get", "interface/br", "-o", "template={{.shadowed}}"), dir, "DIR"))
	// An invalid value in etcd does not let the weaker one through.
	h.Put("interface/br", `{"bridge":{},"addresses":["x"]}`)
	h.Await("invalid", "interface/br")
	address("[[10.1.0.2]]")
	h.Delete("interface/br")
	address("[[10.1.0.1]]")
	h.AwaitConfigured("interface/br")
	r := h.Ctl("delete", "interface/br")
	golden(t, "delete-of-a-file", fmt.Sprintf("exit %d\n%s%s", r.Code, r.Out, strings.ReplaceAll(r.Err, dir, "DIR")))
	write(t, dir, "site.yaml", "intent:\n  interface/br: {bridge: {}, addresses: [10.1.0.3/24]}\n")
	address("[[10.1.0.3]]")
	h.Eventually("the tap is gone", func() error {
		if h.Own.Show(t, "tap") != nil {
			return errors.New("it is there")
		}
		return nil
	})
	// A file that cannot be read takes nothing away.
	write(t, dir, "site.yaml", "intent: [")
	h.Eventually("the agent says so", func() error {
		if out := h.Ctl("status").Out; !strings.Contains(out, "site.yaml") {
			return errors.New(out)
		}
		return nil
	})
	address("[[10.1.0.3]]")
	ends(t, h, "files-end", dir)
}

func anyOf(list []map[string]any) any {
	var all []any
	for _, o := range list {
		all = append(all, o)
	}
	return all
}

// TestCleanup removes all that the label ever made, in all namespaces, with the
// ledger and without, and nothing of others.
func TestCleanup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		lose bool
	}{{"with the ledger", false}, {"the ledger is lost", true}} {
		t.Run(c.name, func(t *testing.T) {
			h := host.New(t, host.Options{Parallel: true})
			h.Run("web")
			for _, command := range []string{
				"link add uplink type veth peer name far", "link set uplink up mtu 1600", "link set far up",
				"addr add 192.0.2.10/24 dev uplink", "link add theirs type bridge", "link set theirs up",
				"addr add 10.5.0.9/24 dev theirs", "route add 10.8.0.0/16 via 10.5.0.1", "link set theirs alias plumb:other:interface/theirs",
			} {
				h.Own.IP(t, command)
			}
			h.In("web").IP(t, "link add dev0 type veth peer name dev1")
			before := h.Exact()
			h.Start()
			for _, x := range everything {
				if c.lose && slices.Contains([]string{"interface/uplink", "interface/web-dev0", "route/both", "route/hole"}, x.key) {
					continue // only the ledger knows what they were, or whose they are
				}
				h.Put(x.key, x.value)
			}
			h.AwaitSettled()
			h.AwaitConfigured("interface/web", "interface/mac", "route/six", "address/extra")
			h.Kill9()
			if c.lose {
				files, _ := filepath.Glob(filepath.Join(h.StateDir(), "ledger*"))
				for _, f := range files {
					if err := os.Remove(f); err != nil {
						t.Fatal(err)
					}
				}
				if len(files) == 0 {
					t.Fatal("there is no ledger")
				}
			}
			r := h.Cleanup()
			t.Log("\n" + r.Out)
			after := h.Exact()
			if diff := host.Diff(before, after); diff != "" {
				t.Errorf("cleanup has not left the host as it was:\n%s", diff)
			}
			if r := h.Cleanup(); !strings.Contains(r.Out, "0 objects removed") {
				t.Errorf("a second cleanup: %s", r.Out)
			}
		})
	}
}
