package kernels

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/tests/vm"
)

// These narrow what runs, for whoever works on one thing, or change the machine; with -rewrite
// its files of testdata are written anew.
var (
	rewrite     = flag.Bool("rewrite", false, "write the expected results of the package anew")
	all         = flag.Bool("all", false, "run the rare packages too")
	onlyPackage = flag.String("package", "", "run the tests of these packages only, such as plugins/netlink,tests/e2e")
	profile     = flag.String("profile", "", "boot into the state of this host, one of netlinktest.Profiles; default: a fresh machine")
	onlyTests   = flag.String("tests", "", "run these tests of it only, as -run takes them")
)

// packages are those whose tests speak to the kernel and to nothing else, with flags for
// their tests. Those that are rare run only with -all: an emulated processor takes minutes
// for what took seconds, and kernels differ less in them. Those that need one of these
// kernels, whichever, run under that of Debian stable once. Packages with stable and newer are divided between the
// two kernels, which run the tests of these flags; with -all or -package both run those of flags.
var packages = []struct {
	dir   string
	rare  bool
	once  bool
	flags []string

	stable, newer []string
}{
	{dir: "plugins/netlink"},
	{dir: "descriptors/iface"},
	{dir: "descriptors/address"},
	{dir: "descriptors/kernel/kerneltest"},
	{dir: "tests/e2e", flags: []string{"-test.run=^(TestStories|TestClockJumps)$", "-stories=testdata/kernels", "-no-engine"},
		stable: []string{"-test.run=^TestStories$", "-test.skip=^TestStories$/^(adopt|links|tunnels)$", "-stories=testdata/kernels", "-no-engine"},
		newer:  []string{"-test.run=^(TestStories|TestClockJumps)$/^(adopt|links|tunnels)$", "-stories=testdata/kernels", "-no-engine"}},
	{dir: "plugins/cni", flags: []string{"-test.run=^TestKernel_Masters$"}, once: true},
	{dir: "tests/demo", flags: []string{"-test.run=^TestTasks$"}, once: true},
	{dir: "plugins/resources/cgroup", once: true}, // version 2 of cgroups, and nothing else
	{dir: "tests/configurations", rare: true},
	{dir: "tests/attributes", rare: true, flags: []string{"-test.run=^(TestAttributes|TestDrift)$"}},
	{dir: "descriptors/fdb", rare: true},
	{dir: "descriptors/hostlink", rare: true},
	{dir: "descriptors/mirror", rare: true},
	{dir: "descriptors/namespace", rare: true},
	{dir: "descriptors/neighbor", rare: true},
	{dir: "descriptors/netns", rare: true},
	{dir: "descriptors/nexthop", rare: true},
	{dir: "descriptors/nftables", rare: true},
	{dir: "descriptors/qdisc"},
	{dir: "descriptors/route", rare: true},
	{dir: "descriptors/rule", rare: true},
	{dir: "descriptors/sysctl", rare: true},
	{dir: "plugins/nftables", rare: true},
}

// TestStable: all of them pass under the kernel of Debian stable.
func TestStable(t *testing.T) { run(t, vm.Stable, true) }

// TestBackports: and under the newer one of its backports.
func TestBackports(t *testing.T) { run(t, vm.Backports, false) }

// run boots a machine and runs the tests there. With -profile all namespaces that they create, by
// whatever way, inherit the settings of the profile.
func run(t *testing.T, bring func(context.Context) (vm.Kernel, error), first bool) {
	if testing.Short() {
		t.Skip("boots a virtual machine")
	}
	t.Parallel() // an emulated machine takes one processor
	k, err := bring(t.Context())
	if err != nil {
		needed(t, err)
	}
	t.Logf("Linux %s of %s", k.Release, k.Suite)
	m := vm.Machine{Kernel: k, Files: map[string]string{"/plumb/bin": agent(t)}, Programs: programs}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range []string{"kernels.md", "tasks"} {
		m.Files["/plumb/docs/"+doc] = filepath.Join(root, "docs", doc)
	}
	if *profile != "" {
		m.Files["/plumb/hosts"] = build(t, "hosts", "build", "github.com/plumb-net/plumb/tests/hosts")
		m.Commands = append(m.Commands, vm.Command{Args: []string{"/plumb/hosts/hosts", *profile}})
	}
	before := len(m.Commands)
	var names, data []string
	for _, p := range packages {
		if *onlyPackage != "" && !slices.Contains(strings.Split(*onlyPackage, ","), p.dir) || *onlyPackage == "" && !*all && (p.rare || p.once && !first) {
			continue
		}
		names = append(names, p.dir)
		at := path.Join("/plumb", p.dir)
		m.Files[at+"/test"] = testOf(t, p.dir)
		if from := filepath.Join(root, p.dir, "testdata"); exists(from) {
			m.Files[at+"/testdata"] = from
			data = append(data, p.dir+"/testdata")
		}
		flags := p.flags
		if p.stable != nil && !*all && *onlyPackage == "" {
			flags = p.newer
			if first {
				flags = p.stable
			}
		}
		args := append([]string{at + "/test", "-test.v"}, flags...)
		if *onlyTests != "" {
			args = append(args, "-test.run="+*onlyTests)
		}
		if *rewrite {
			args = append(args, "-rewrite")
		}
		m.Commands = append(m.Commands, vm.Command{Args: args, Dir: at, Env: []string{"CI=true", "PLUMB_KERNEL=" + k.Suite, "PLUMB_E2E_BIN=/plumb/bin"}})
	}
	if *rewrite {
		m.Commands = append(m.Commands, vm.Command{Dir: "/plumb", Args: []string{"sh", "-c", "tar -c " + strings.Join(data, " ") + " | base64"}})
	}
	ctx := t.Context()
	if end, limited := t.Deadline(); limited {
		// A machine that hangs shows how far it came.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-10*time.Second))
		defer cancel()
	}
	results, err := m.Run(ctx)
	if err != nil {
		t.Error(err)
	}
	for range min(before, len(results)) {
		if results[0].Code != 0 {
			t.Fatalf("the machine is not in the state of profile %s:\n%s", *profile, results[0].Output)
		}
		results = results[1:]
	}
	if *rewrite && before+len(results) == len(m.Commands) {
		unpack(t, results[len(names)].Output, root)
		results = results[:len(names)]
	}
	for i, r := range results {
		t.Run(strings.ReplaceAll(names[i], "/", "_"), func(t *testing.T) { report(t, r) })
	}
}

// programs are what the tests call.
var programs = []string{"bash", "sh", "ip", "bridge", "tc", "nft", "wg", "ethtool", "etcdctl", "cat", "sleep", "true", "nsenter", "unshare", "busybox", "grep", "sed", "cut", "ss", "stat", "chmod", "tar", "base64", "mktemp", "mount", "ln", "sysctl", "sort"}

// needed ends a test that cannot run here: CI has to provide what it needs.
func needed(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// built is where programs are built, each once for both kernels.
var built struct {
	sync.Mutex
	dir string
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "kernels-")
	if err != nil {
		panic(err)
	}
	built.dir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// agent is a directory with the agent and its command line.
func agent(t *testing.T) string {
	t.Helper()
	const module = "github.com/plumb-net/plumb/"
	return build(t, "bin", "build", module+"cmd/plumb-agent", module+"cmd/agentctl", module+"cmd/plumb-cni")
}

// testOf is the test binary of a package.
func testOf(t *testing.T, dir string) string {
	t.Helper()
	return filepath.Join(build(t, dir, "test", "-c", "-vet=off", "github.com/plumb-net/plumb/"+dir), path.Base(dir)+".test")
}

// build has the go command make programs in a directory of their own, unless they are there.
func build(t *testing.T, name, verb string, args ...string) (dir string) {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	dir = filepath.Join(built.dir, name)
	if exists(dir) {
		return dir
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", append([]string{verb, "-trimpath", "-o", dir + "/"}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return dir
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// unpack writes the files of an archive in base64 to a directory.
func unpack(t *testing.T, text, dir string) {
	t.Helper()
	cmd := exec.Command("bash", "-c", "base64 -d | tar -x -C "+dir)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, text)
	}
}

// verdict is the line by which a test binary tells how a test ended.
var verdict = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\S+)`)

// report makes each test of the machine one of ours. What a test that failed printed
// stands above its verdict or below it, so all that it may be is shown.
func report(t *testing.T, r vm.Result) {
	var ended int
	for line := range strings.Lines(r.Output) {
		m := verdict.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		ended++
		t.Run(m[2], func(t *testing.T) {
			t.Log(strings.TrimSpace(line)) // with the time that it took there
			switch m[1] {
			case "FAIL":
				t.Fail()
			case "SKIP":
				needed(t, errSkipped)
			}
		})
	}
	if ended == 0 || r.Code != 0 || t.Failed() {
		t.Errorf("exit code %d\n%s", r.Code, r.Output)
	}
}

var errSkipped = errors.New("the test was skipped there")
