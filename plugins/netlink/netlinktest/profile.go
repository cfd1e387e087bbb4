package netlinktest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// ProfileVariable is the environment variable that names the profile of a test process: the
// namespaces that its tests create start with the settings of that profile. Without it they
// start with what the kernel gives a new namespace on this machine.
const ProfileVariable = "PLUMB_HOST_PROFILE"

// Profile holds the network settings that other software leaves on a host, and which namespaces
// that are created later inherit.
type Profile struct {
	Name string
	// Settings are written in this order.
	Settings []Setting
}

// Setting is a file below /proc/sys/net and its value.
type Setting struct{ Place, Value string }

// Profiles returns all profiles. A test that passes under each of them states every setting that
// it relies on.
func Profiles() []Profile {
	return []Profile{
		{"docker", settings(`
			ipv4/ip_forward 1
			bridge/bridge-nf-call-iptables 1
			bridge/bridge-nf-call-ip6tables 1`)},
		{"kubernetes", settings(`
			ipv4/ip_forward 1
			ipv6/conf/all/forwarding 1
			ipv4/conf/{all,default}/route_localnet 1
			ipv4/conf/{all,default}/arp_ignore 1
			ipv4/conf/{all,default}/arp_announce 2
			ipv4/conf/{all,default}/rp_filter 0
			ipv6/conf/{all,default}/accept_ra 0
			bridge/bridge-nf-call-iptables 1
			bridge/bridge-nf-call-ip6tables 1`)},
		// What systemd and NetworkManager set.
		{"desktop", settings(`
			ipv4/conf/{all,default}/rp_filter 2
			ipv4/conf/{all,default}/promote_secondaries 1
			ipv4/conf/{all,default}/accept_source_route 0
			ipv4/ping_group_range 0 2147483647
			ipv6/conf/{all,default}/use_tempaddr 2
			ipv6/conf/{all,default}/accept_ra 0
			bridge/bridge-nf-call-iptables 0
			bridge/bridge-nf-call-ip6tables 0`)},
		// A router that is configured by router advertisements itself, with the settings of
		// the usual hardening guides.
		{"router", settings(`
			ipv4/ip_forward 1
			ipv6/conf/all/forwarding 1
			ipv4/conf/{all,default}/rp_filter 1
			ipv4/conf/{all,default}/log_martians 1
			ipv4/conf/{all,default}/send_redirects 0
			ipv4/conf/{all,default}/accept_redirects 0
			ipv4/conf/{all,default}/secure_redirects 0
			ipv4/conf/{all,default}/proxy_arp 1
			ipv4/conf/{all,default}/promote_secondaries 1
			ipv4/icmp_echo_ignore_broadcasts 1
			ipv4/tcp_syncookies 1
			ipv6/conf/{all,default}/accept_ra 2
			ipv6/conf/{all,default}/accept_redirects 0
			ipv6/conf/{all,default}/proxy_ndp 1
			ipv6/conf/{all,default}/keep_addr_on_down 1`)},
		// A kernel that was booted with ipv6.disable_ipv6=1, or a host whose administrator
		// disabled IPv6 by sysctl.
		{"ipv6-off", settings(`
			ipv6/conf/{all,default}/disable_ipv6 1`)},
	}
}

// kernelDefaults holds what a new namespace has on a host that nobody has configured, for each
// setting of the profiles that the kernel lets namespaces inherit.
var kernelDefaults = Profile{"kernel", settings(`
	ipv4/ip_forward 0
	ipv4/conf/{all,default}/accept_redirects 1
	ipv4/conf/{all,default}/accept_source_route 1
	ipv4/conf/{all,default}/arp_announce 0
	ipv4/conf/{all,default}/arp_ignore 0
	ipv4/conf/{all,default}/log_martians 0
	ipv4/conf/{all,default}/promote_secondaries 0
	ipv4/conf/{all,default}/proxy_arp 0
	ipv4/conf/{all,default}/route_localnet 0
	ipv4/conf/{all,default}/rp_filter 0
	ipv4/conf/{all,default}/secure_redirects 1
	ipv4/conf/{all,default}/send_redirects 1
	ipv4/icmp_echo_ignore_broadcasts 1
	ipv4/ping_group_range 1 0
	ipv4/tcp_syncookies 1
	ipv6/conf/all/forwarding 0
	ipv6/conf/{all,default}/accept_ra 1
	ipv6/conf/{all,default}/accept_redirects 1
	ipv6/conf/{all,default}/disable_ipv6 0
	ipv6/conf/{all,default}/keep_addr_on_down 0
	ipv6/conf/{all,default}/proxy_ndp 0
	ipv6/conf/{all,default}/use_tempaddr 0
	bridge/bridge-nf-call-iptables 1
	bridge/bridge-nf-call-ip6tables 1`)}

// Defaults gives a namespace without links but lo the settings of a host that nobody has
// configured. It is for tests that compare with what the kernel does by default.
func (n *Namespace) Defaults(t testing.TB) {
	t.Helper()
	if err := kernelDefaults.applyAt(n.Path); err != nil {
		t.Fatal(err)
	}
}

// IPv6 enables IPv6 on all links of a namespace, present and future, for tests that need it: a
// host may disable it by default.
func (n *Namespace) IPv6(t testing.TB) {
	t.Helper()
	n.Sysctl(t, "ipv6/conf/all/disable_ipv6", "0") // which sets the default too
}

// settings parses lines of a place and a value. A place with {all,default} stands for two.
func settings(text string) (list []Setting) {
	for line := range strings.Lines(strings.TrimSpace(text)) {
		place, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		before, after, both := strings.Cut(place, "{all,default}")
		if !both {
			list = append(list, Setting{place, value})
			continue
		}
		list = append(list, Setting{before + "all" + after, value}, Setting{before + "default" + after, value})
	}
	return list
}

// ProfileByName returns the profile with that name.
func ProfileByName(name string) (Profile, error) {
	all := Profiles()
	i := slices.IndexFunc(all, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		var names []string
		for _, p := range all {
			names = append(names, p.Name)
		}
		return Profile{}, fmt.Errorf("no profile of a host is called %q; there are %s", name, strings.Join(names, ", "))
	}
	return all[i], nil
}

// ours returns the profile of this test process, and one without settings if there is none.
func ours() (Profile, error) {
	name := os.Getenv(ProfileVariable)
	if name == "" {
		return Profile{}, nil
	}
	return ProfileByName(name)
}

// Apply writes the settings to the network namespace of the calling thread. It skips settings
// that this kernel does not have.
func (p Profile) Apply() error {
	for _, s := range p.Settings {
		if err := s.write(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("apply profile %s: %w", p.Name, err)
		}
	}
	return nil
}

func (s Setting) write() error { return os.WriteFile("/proc/sys/net/"+s.Place, []byte(s.Value), 0) }

// Inherit gives a new namespace the settings of the profile of this test process. The functions
// of this package that create namespaces call it; a test that creates one in another way, such
// as by the code under test, calls it itself.
func Inherit(t testing.TB, path string) {
	t.Helper()
	p, err := ours()
	if err == nil && p.Settings != nil {
		err = p.applyAt(path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (p Profile) applyAt(path string) error { return Inside(path, p.Apply) }

// Inside runs work on a thread in the namespace at a path.
func Inside(path string, work func() error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	result := make(chan error)
	go elsewhere(func() error {
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return work()
	}, result)
	return <-result
}
