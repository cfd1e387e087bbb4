package configurations

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// enough is the least number of configurations that run on any kernel.
const enough = 40

// TestConfigurations applies all configurations at once and compares each with the result of the plain tools
// in another namespace. A second apply and a resync write nothing. After the deletion of all keys each namespace is
// as it was before. A configuration that needs what this kernel lacks is logged and taken back; under
// the kernels of Debian (tests/kernels) all of them run.
func TestConfigurations(t *testing.T) {
	h := host.New(t, host.Options{NoEngine: true, Fast: true})
	all, may, intent := read(t), differencesOf(h.Label), filepath.Join(h.Dir, "intent")
	for _, c := range all {
		c.prepare(t, h, intent)
	}
	h.Start()
	for _, c := range all {
		c.before = listing(t, c.plumb, may)
	}

	h.MustCtl("apply", "-f", intent)
	states := settled(h, all)
	var keys []string
	ran := 0
	for _, c := range all {
		if why := c.lacks(states); why != "" {
			t.Logf("%s: %s", c.name, why)
			h.MustCtl(append([]string{"delete"}, c.keys...)...)
			if err := os.Remove(filepath.Join(intent, c.name+".yaml")); err != nil {
				t.Fatal(err)
			}
			continue
		}
		ran++
		keys = append(keys, c.keys...)
		t.Run(c.name, func(t *testing.T) {
			for _, key := range c.waiting(states) {
				t.Error(states[key].Text())
			}
			c.plain.Run(t, "sh", "-ec", c.parts["tools.sh"])
			eventually(t, "the result of Plumb (+) differs from that of the tools (-)", func() string {
				return host.Diff(listing(t, c.plain, may), listing(t, c.plumb, may))
			})
		})
	}
	if ran < enough {
		t.Errorf("%d configurations ran, want at least %d", ran, enough)
	}

	h.AwaitSettled()
	writes, done := h.KernelWrites(), h.Done()
	h.MustCtl("apply", "-f", intent)
	h.MustCtl("resync")
	h.AwaitSettled()
	if n := h.KernelWrites() - writes; n != 0 {
		t.Errorf("the second apply made %d kernel writes:\n%s", n, host.Diff(done, h.Done()))
	}

	h.MustCtl(append([]string{"delete"}, keys...)...)
	h.Ctl("release") // the deletion may be held back as a mass deletion
	h.AwaitSettled()
	for _, c := range all {
		eventually(t, c.name+": the namespace differs from its state before the apply", func() string {
			return host.Diff(c.before, listing(t, c.plumb, may))
		})
	}
}

// settled waits until all keys of configurations that this kernel supports are configured, for a limited time. It
// returns all keys of the agent.
func settled(h *host.Host, all []*configuration) (states map[string]host.Key) {
	for range 100 {
		h.AwaitSettled()
		states = map[string]host.Key{}
		for _, k := range h.Keys() {
			states[k.Key] = k
		}
		if !slices.ContainsFunc(all, func(c *configuration) bool { return c.lacks(states) == "" && len(c.waiting(states)) > 0 }) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return states
}

// eventually waits until there is no difference, for a limited time: the kernel updates what depends on the
// carrier of a link up to a second later.
func eventually(t *testing.T, what string, differences func() string) {
	t.Helper()
	var is string
	for range 25 {
		if is = differences(); is == "" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("%s:\n%s", what, is)
}

// configuration is a file of testdata.
type configuration struct {
	name         string
	parts        map[string]string
	keys         []string
	plumb, plain *netlinktest.Namespace // where the agent and where the tools apply it
	before       string                 // listing of the agent's namespace before that
}

// header is the line before a part.
var header = regexp.MustCompile(`(?m)^-- (\S+) --\n`)

// read returns all configurations.
func read(t *testing.T) (all []*configuration) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	owner := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c := &configuration{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), parts: map[string]string{}}
		names, parts := header.FindAllStringSubmatch(string(text), -1), header.Split(string(text), -1)
		for i, name := range names {
			c.parts[name[1]] = parts[i+1]
		}
		var values struct{ Intent map[string]any }
		if err := yaml.Unmarshal([]byte(c.parts["intent.yaml"]), &values); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for key := range values.Intent {
			if owner[key] != "" {
				t.Fatalf("%s is in %s and in %s", key, owner[key], file)
			}
			owner[key] = file
			c.keys = append(c.keys, key)
		}
		if strings.TrimSpace(parts[0]) == "" || len(c.keys) == 0 || c.parts["tools.sh"] == "" {
			t.Fatalf("%s: want a comment, intent.yaml with keys, and tools.sh", file)
		}
		slices.Sort(c.keys)
		all = append(all, c)
	}
	return all
}

// prepare creates both namespaces and writes the intent to a directory.
func (c *configuration) prepare(t *testing.T, h *host.Host, intent string) {
	t.Helper()
	c.plumb, c.plain = h.Mount(c.name), netlinktest.New(t)
	c.plain.IPv6(t)
	for _, ns := range []*netlinktest.Namespace{c.plumb, c.plain} {
		ns.IP(t, "link set lo up")
		ns.Sysctl(t, "ipv6/conf/default/accept_dad", "0") // addresses would be tentative for a second
		ns.Run(t, "sh", "-ec", c.parts["given.sh"])
	}
	if err := os.MkdirAll(intent, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(intent, c.name+".yaml"), []byte(c.parts["intent.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
}

// waiting returns the keys that are not configured.
func (c *configuration) waiting(states map[string]host.Key) (keys []string) {
	for _, key := range c.keys {
		if states[key].State != "configured" {
			keys = append(keys, key)
		}
	}
	return keys
}

// lacks returns what this kernel lacks for the configuration. The kernels of Debian lack nothing.
func (c *configuration) lacks(states map[string]host.Key) string {
	if os.Getenv("PLUMB_KERNEL") != "" {
		return ""
	}
	for _, key := range c.keys {
		if why := states[key].Reason; strings.Contains(why, "not supported by this kernel") || strings.Contains(why, "does this kernel have") {
			return why
		}
	}
	return ""
}
