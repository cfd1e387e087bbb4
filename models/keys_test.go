package models_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/models"
)

func TestKeys(t *testing.T) {
	for _, c := range []struct{ got, want, kind, name string }{
		{models.NetNSKey("blue"), "netns/blue", "netns", "blue"},
		{models.InterfaceKey("web:0"), "interface/web:0", "interface", "web:0"},
		{models.RouteKey("r1"), "route/r1", "route", "r1"},
		{models.AddressKey("web", "10.0.0.1/24"), "address/web/10.0.0.1/24", "address", "web/10.0.0.1/24"},
		{models.AddressKey("web", "FD00:0::1/64"), "address/web/fd00::1/64", "address", "web/fd00::1/64"},
		{models.AddressKey("web", "claim:a"), "address/web/claim:a", "address", "web/claim:a"},
		{models.MicroserviceKey("my_svc/a"), "microservice/my_svc%2Fa", "microservice", "my_svc%2Fa"},
		{models.ContainerKey("containerd:k8s.io", "ab12"), "container/containerd:k8s.io:ab12", "container", "containerd:k8s.io:ab12"},
		{models.HostLinkKey("eth0"), "hostlink/eth0", "hostlink", "eth0"},
		{models.HostLinkKey(".x%d"), "hostlink/%2Ex%25d", "hostlink", "%2Ex%25d"},
		{models.NamespacePIDKey(12), "namespace/pid:12", "namespace", "pid:12"},
		{models.NamespacePathKey("/run/netns/a b"), "namespace/path:%2Frun%2Fnetns%2Fa%20b", "namespace", "path:%2Frun%2Fnetns%2Fa%20b"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
		kind, name, err := models.SplitKey(c.got)
		if err != nil || kind != c.kind || name != c.name {
			t.Errorf("SplitKey(%s) = %s, %s, %v; want %s, %s", c.got, kind, name, err, c.kind, c.name)
		}
	}
}

func TestSplitKeyRefuses(t *testing.T) {
	for key, want := range map[string]string{
		"web":                                    `"web" is no key; a key is <kind>/<name>, for example interface/web`,
		"microservice/":                          `key "microservice/": the name is empty`,
		"microservice/a%2":                       `key "microservice/a%2": "a%2" ends within an escape; % is written %25`,
		"microservice/a%2f":                      `key "microservice/a%2f": "%2f" is no escape; it is % and two digits of 0-9 A-F, and % itself is %25`,
		"microservice/%61":                       `key "microservice/%61": "%61" must be written "a"`,
		"microservice/a/b":                       `key "microservice/a/b": "a/b" must be written "a%2Fb"`,
		"interface/a%2Fb":                        `key "interface/a%2Fb": a name cannot hold '%'; allowed are letters, digits and . _ : -`,
		"address/a b/10.0.0.1":                   `key "address/a b/10.0.0.1": a name cannot hold ' '; allowed are letters, digits and . _ : -`,
		"address/a/10.0.0.1":                     `key "address/a/10.0.0.1": "10.0.0.1" is neither an address in CIDR notation nor claim:<ipclaim>`,
		"address/a/FD00::1/64":                   `key "address/a/FD00::1/64": FD00::1/64 must be written fd00::1/64`,
		"address/a/claim:a b":                    `key "address/a/claim:a b": a name cannot hold ' '; allowed are letters, digits and . _ : -`,
		"container/" + strings.Repeat("a", 4097): `key "container/` + strings.Repeat("a", 4097) + `": the name has 4097 bytes; at most 4096 are allowed`,
	} {
		_, _, err := models.SplitKey(key)
		if err == nil || err.Error() != want {
			t.Errorf("SplitKey(%s)\n got %v\nwant %s", key, err, want)
		}
	}
}

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"web", "my_svc/a", "", "%", ".a", "a.b:c-d_e", "ü", "\x00\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name := models.Escape(s)
		back, err := models.Unescape(name)
		if err != nil || back != s {
			t.Fatalf("%q became %q, which became %q, %v", s, name, back, err)
		}
		if _, _, err := models.SplitKey(models.MicroserviceKey(s)); err != nil && s != "" && len(s) <= 4096 {
			t.Fatalf("%q is refused: %v", name, err)
		}
		if back, err := models.Unescape(s); err == nil && models.Escape(back) != s {
			t.Fatalf("%q and %q mean the same", s, models.Escape(back))
		}
	})
}

// TestIPLeaseKeys: the key of a lease tells what is asked of whom, and is one.
func TestIPLeaseKeys(t *testing.T) {
	for _, c := range []struct {
		pool, claim, addr, key string
	}{
		{"blue", "web", "", "iplease/blue%2Fweb"},
		{"blue", "web", "10.0.0.5", "iplease/blue%2Fweb%2F10.0.0.5"},
		{"blue", "10.0.0.5", "fd00::5", "iplease/blue%2F10.0.0.5%2Ffd00::5"},
	} {
		addr, _ := netip.ParseAddr(c.addr)
		key := models.IPLeaseKey(c.pool, c.claim, addr)
		pool, claim, back, ok := models.SplitIPLease(key)
		if key != c.key || pool != c.pool || claim != c.claim || back != addr || !ok {
			t.Errorf("%s is %s %s %v %v", key, pool, claim, back, ok)
		}
		if _, _, err := models.SplitKey(key); err != nil {
			t.Error(err)
		}
	}
	for _, key := range []string{"iplease/blue", "iplease/a%2Fb%2Fc", "iplease/a%2Fb%2F1.2.3.4%2F", "iplease/%2f"} {
		if _, _, _, ok := models.SplitIPLease(key); ok {
			t.Errorf("%s was taken for a lease", key)
		}
	}
}
