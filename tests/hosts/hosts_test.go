package main

import (
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// sensitive are the packages whose tests are the most likely to rely on a setting that a new
// namespace inherits, with flags that leave out what takes long.
var sensitive = []struct {
	dir   string
	flags []string
}{
	{"descriptors/address", nil},
	{"descriptors/forward", nil},
	{"descriptors/iface", []string{"-test.run=^(TestWorld|TestConform.*|TestWatch.*)$"}},
	{"descriptors/route", nil},
	{"descriptors/sysctl", nil},
	{"plugins/cni", []string{"-test.run=^TestKernel_"}},
}

// TestProfiles runs these tests under the profiles that differ most from a fresh machine. A
// test that fails here and passes by itself relies on a setting that it does not set; run it
// with PLUMB_HOST_PROFILE=NAME. tests/kernels and make hosts do the same for whole machines.
func TestProfiles(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the tests of other packages")
	}
	netlinktest.Root(t)
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sensitive {
		program := filepath.Join(dir, path.Base(s.dir)+".test")
		if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-o", program, "github.com/plumb-net/plumb/"+s.dir).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", s.dir, err, out)
		}
		profiles := []string{"router", "ipv6-off"}
		if s.dir == "descriptors/sysctl" || s.dir == "plugins/cni" {
			profiles = append(profiles, "desktop") // bridges without netfilter, a loose filter of sources
		}
		for _, profile := range profiles {
			t.Run(profile+"/"+strings.ReplaceAll(s.dir, "/", "_"), func(t *testing.T) {
				cmd := exec.CommandContext(t.Context(), program, append([]string{"-test.short", "-test.count=1"}, s.flags...)...)
				cmd.Dir = filepath.Join(root, s.dir)
				cmd.Env = append(os.Environ(), netlinktest.ProfileVariable+"="+profile)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s=%s go test ./%s: %v\n%s", netlinktest.ProfileVariable, profile, s.dir, err, out)
				} else if strings.Contains(string(out), "no tests to run") {
					t.Errorf("no test of %s was run", s.dir)
				}
			})
		}
	}
}

// asProgram has this test program be the command.
const asProgram = "PLUMB_HOSTS_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// state prints what the command changes.
const state = `cd /proc/sys/net; grep -s . ipv4/ip_forward ipv4/conf/*/* ipv6/conf/*/* bridge/* | grep -v -e stable_secret -e _msecs
nft list ruleset; iptables -S; ip netns list | wc -l; ip route show | wc -l; ls /run/netns | wc -l; `

// TestOccupy: the command has the state of a host of others there while another command runs,
// and takes all of it back, however that command ends. The host is a namespace of this test.
func TestOccupy(t *testing.T) {
	netlinktest.Root(t)
	for i, p := range netlinktest.Profiles() {
		ends := map[string]int{"exit 0": 0}
		if i == 0 {
			ends = map[string]int{"exit 3": 3, "kill -TERM $PPID; exec sleep 60": 1}
		}
		for how, code := range ends {
			t.Run(p.Name+"/"+how, func(t *testing.T) {
				dir := t.TempDir()
				if err := os.WriteFile(filepath.Join(dir, "state"), []byte(state), 0o600); err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), "unshare", "--net", "--mount", "sh", "-c", `
					mount -t tmpfs none /run && mkdir /run/netns && ip link set lo up && ip link add near type veth peer name far || exit 9
					echo 1 >/proc/sys/net/ipv4/conf/far/rp_filter
					iptables -P FORWARD ACCEPT # which makes the table that iptables keeps
					cd "$1" && sh state >before 2>&1
					"$0" "$2" sh -c "sh state >during 2>&1; $3"
					code=$?
					sh state >after 2>&1
					exit $code`, os.Args[0], dir, p.Name, how)
				cmd.Env = append(os.Environ(), asProgram+"=1")
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				if errors.As(err, &exit); cmd.ProcessState.ExitCode() != code {
					t.Fatalf("%v, want code %d\n%s", err, code, out)
				}
				was := func(when string) string {
					text, err := os.ReadFile(filepath.Join(dir, when))
					if err != nil {
						t.Fatal(err)
					}
					return string(text)
				}
				for _, want := range []string{"table inet foreign-firewall", "-P FORWARD DROP", "-A FORWARD -j FOREIGN-USER", "\n200\n", "\n10000\n"} {
					if !strings.Contains(was("during"), want) {
						t.Errorf("no %q while the command runs:\n%.2000s", want, was("during"))
					}
				}
				for _, s := range p.Settings[len(p.Settings)-2:] {
					if line := s.Place + ":" + s.Value + "\n"; !strings.Contains(was("during"), line) {
						t.Errorf("no %q while the command runs", line)
					}
				}
				if was("before") != was("after") {
					diff, _ := exec.Command("diff", filepath.Join(dir, "before"), filepath.Join(dir, "after")).Output()
					t.Errorf("not restored:\n%s", diff)
				}
			})
		}
	}
}
