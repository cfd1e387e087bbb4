package arch

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// shared are the foreign modules that several of our packages may import: they
// stand for a notation or a habit, not for an outside system. Of every other
// there is one folder that knows it.
var shared = []string{
	"connectrpc.com/connect", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys", "google.golang.org/grpc", "google.golang.org/protobuf", "go.yaml.in/yaml/v3",
}

// forTests are foreign modules for tests, wherever they are.
var forTests = []string{
	"github.com/chromedp", "github.com/cockroachdb/datadriven", "github.com/vishvananda/netlink", "github.com/vishvananda/netns", "go.uber.org/goleak", "golang.org/x/tools",
	"go.uber.org/zap", "go.etcd.io/etcd", "go.opentelemetry.io/proto/otlp",
}

// rule is a line of layers.txt, and what of it was used.
type rule struct {
	allowed []string
	used    map[string]bool
}

func rules(t *testing.T) map[string]*rule {
	t.Helper()
	all := map[string]*rule{}
	for line := range strings.Lines(read(t, "tests/arch/layers.txt")) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, allowed, ok := strings.Cut(line, ":")
		if !ok || all[name] != nil {
			t.Fatalf("layers.txt: %q: want one line per package, package: imports", line)
		}
		all[name] = &rule{allowed: strings.Fields(allowed), used: map[string]bool{}}
	}
	return all
}

// permits reports whether the import is allowed, and notes that it is used.
func (r *rule) permits(imported string) bool {
	for _, a := range r.allowed {
		if within(imported, a) {
			r.used[a] = true
			return true
		}
	}
	return false
}

// within reports whether the package is meant by the pattern: itself, dir/*,
// dir/..., or a foreign module.
func within(name, pattern string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/*"); ok {
		return path.Dir(name) == dir
	}
	if dir, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == dir || strings.HasPrefix(name, dir+"/")
	}
	foreign := strings.Contains(strings.Split(pattern, "/")[0], ".")
	return name == pattern || foreign && strings.HasPrefix(name, pattern+"/")
}

// TestLayers: every package imports what layers.txt says, all of it and nothing else.
func TestLayers(t *testing.T) {
	rules, seen := rules(t), map[string]bool{}
	for _, p := range list(t, "./...") {
		r := rules[p.short()]
		seen[p.short()] = true
		if r == nil {
			t.Errorf("%s is not in layers.txt: say there what it may import", p.short())
			continue
		}
		for _, imported := range p.Imports {
			if !standard(imported) && !r.permits(short(imported)) {
				t.Errorf("%s imports %s: layers.txt does not allow it", p.short(), short(imported))
			}
		}
		for _, a := range r.allowed {
			if !r.used[a] {
				t.Errorf("%s does not import %s: take it out of layers.txt", p.short(), a)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		if !seen[name] {
			t.Errorf("layers.txt: there is no package %s", name)
		}
	}
}

// TestOneFolderPerClient: each foreign module has one folder that knows it.
func TestOneFolderPerClient(t *testing.T) {
	folders := map[string]map[string]bool{}
	for name, r := range rules(t) {
		for _, a := range r.allowed {
			foreign := strings.Contains(strings.Split(a, "/")[0], ".")
			if !foreign || slices.Contains(shared, a) {
				continue
			}
			if folders[a] == nil {
				folders[a] = map[string]bool{}
			}
			folders[a][folder(name)] = true
		}
	}
	for client, in := range folders {
		if len(in) > 1 {
			t.Errorf("%s is imported in %s: one folder speaks with an outside system", client, strings.Join(slices.Sorted(maps.Keys(in)), " and "))
		}
	}
}

// folder is that of a package below the top folder, plugins/etcd for one.
func folder(name string) string {
	parts := strings.Split(name, "/")
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// TestTestsImportFew: tests may import all of ours, and of others' what their
// package or the list for tests allows.
func TestTestsImportFew(t *testing.T) {
	rules := rules(t)
	for _, p := range list(t, "./...") {
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			if standard(imported) || ours(imported) || imported == module {
				continue
			}
			allowed := slices.ContainsFunc(slices.Concat(forTests, shared), func(m string) bool { return within(imported, m) })
			if !allowed && (rules[p.short()] == nil || !rules[p.short()].permits(imported)) {
				t.Errorf("tests of %s import %s", p.short(), imported)
			}
		}
	}
}

// TestLinked: what must not be in a program is not in it.
func TestLinked(t *testing.T) {
	never := map[string][]string{
		"./scheduler/...":       nil, // nothing at all
		"./cmd/agentctl":        {"go.etcd.io/etcd/server", "go.etcd.io/bbolt", "github.com/fsouza", "github.com/vishvananda", module + "/descriptors", module + "/agent", module + "/plugins/etcd/embedded", module + "/plugins/netlink", module + "/plugins/docker"},
		"./plugins/api/client":  {"go.etcd.io", "google.golang.org/grpc", module + "/scheduler"},
		"./descriptors/...":     {"go.etcd.io", "golang.org/x/sys", "github.com", module + "/plugins"},
		"./plugins/netlink/...": {"github.com/vishvananda/netlink", module + "/scheduler"},
		"./models":              {module + "/scheduler", module + "/plugins"},
	}
	for pattern, banned := range never {
		for _, p := range list(t, pattern) {
			for _, dep := range p.Deps {
				switch {
				case banned == nil && !standard(dep) && !strings.HasPrefix(dep, module+"/scheduler"):
					t.Errorf("%s is built from %s: it stands on the standard library alone", p.short(), dep)
				case slices.ContainsFunc(banned, func(b string) bool { return bans(b, dep) }):
					t.Errorf("%s is built from %s", p.short(), dep)
				}
			}
		}
	}
}

func bans(banned, dep string) bool {
	if banned == "github.com" && ours(dep) {
		return false
	}
	return dep == banned || strings.HasPrefix(dep, banned+"/")
}
