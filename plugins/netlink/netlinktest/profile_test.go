package netlinktest_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// value returns a setting as the namespace has it.
func value(t *testing.T, n *netlinktest.Namespace, place string) string {
	t.Helper()
	return strings.Join(strings.Fields(n.Run(t, "cat", "/proc/sys/net/"+place)), " ")
}

// last holds the values that a profile leaves, by place.
func last(t *testing.T, p netlinktest.Profile) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, s := range p.Settings {
		if _, err := os.Stat("/proc/sys/net/" + s.Place); errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(s.Place, "bridge/") {
			continue // a kernel that has not loaded br_netfilter
		}
		all[s.Place] = s.Value
	}
	return all
}

// TestProfiles: each way to create a namespace gives it the settings of the profile, and
// Defaults takes all of them back. A place that is misspelt in the table fails.
func TestProfiles(t *testing.T) {
	for _, p := range netlinktest.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			netlinktest.Root(t)
			t.Setenv(netlinktest.ProfileVariable, "")
			untouched := netlinktest.New(t)
			untouched.Defaults(t)
			t.Setenv(netlinktest.ProfileVariable, p.Name)
			dir := netlinktest.Dir(t)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			want := last(t, p)
			for how, n := range map[string]*netlinktest.Namespace{
				"New":   netlinktest.New(t),
				"Mount": netlinktest.Mount(t, filepath.Join(dir, "mounted")),
				"Start": &netlinktest.Start(t).Namespace,
			} {
				for _, place := range slices.Sorted(maps.Keys(want)) {
					if got := value(t, n, place); got != want[place] {
						t.Errorf("%s: %s is %q, want %q", how, place, got, want[place])
					}
				}
				n.Defaults(t)
				for _, place := range slices.Sorted(maps.Keys(want)) {
					if got, before := value(t, n, place), value(t, untouched, place); got != before {
						t.Errorf("%s: %s is %q after Defaults, want %q", how, place, got, before)
					}
				}
			}
		})
	}
}

// TestIPv6: a namespace of a host that disables IPv6 has it on links that are there, and on
// those that are added.
func TestIPv6(t *testing.T) {
	t.Setenv(netlinktest.ProfileVariable, "ipv6-off")
	n := netlinktest.New(t)
	if out, err := n.Try("ip", "addr", "add", "fd00::1/64", "dev", "lo"); err == nil {
		t.Fatalf("IPv6 is on: %s", out)
	}
	n.IPv6(t)
	n.IP(t, "addr add fd00::1/64 dev lo")
	n.IP(t, "link add br0 type bridge")
	n.IP(t, "addr add fd01::1/64 dev br0")
}

// TestUnknownProfile: the error names the profiles that there are.
func TestUnknownProfile(t *testing.T) {
	if _, err := netlinktest.ProfileByName("ruoter"); err == nil || !strings.Contains(err.Error(), "router") {
		t.Error(err)
	}
}
