package spec

import (
	"encoding/json"
	"testing"
)

// FuzzConfig: a configuration is taken or refused with a code; what is taken says where it
// asks and is of a version that is known.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{
		`{"cniVersion":"1.0.0","name":"blue"}`, `{"cniVersion":"0.3.1","name":"blue","pool":["10.1.0.0/16","fd00::/64"],"mode":"routed","mtu":1400}`,
		`{"cniVersion":"1.1.0","name":"blue","ipam":{"type":"static"},"prevResult":{"ips":[{"address":"10.0.0.1/24","interface":0}]}}`,
		`{"cniVersion":"1.1.0","name":"blue","cni.dev/attachments":[{"containerID":"c","ifname":"eth0"}],"sysctl":{"net.core.somaxconn":"1"}}`,
		`{"cniVersion":null}`, `[]`, `{"name":1}`, `{"cniVersion":"1.0.0","name":"../x","socket":"relative"}`, "{",
	} {
		for _, command := range []string{"ADD", "DEL", "GC"} {
			f.Add(command, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, command string, text []byte) {
		c, wrong := ParseConfig(command, text)
		if wrong != nil {
			if wrong.Code == 0 || wrong.Msg == "" || wrong.Error() == "" {
				t.Fatalf("refused with %+v", wrong)
			}
			return
		}
		if c.Socket == "" || c.Name == "" || !Supported(c.CNIVersion) || !json.Valid(text) {
			t.Fatalf("taken: %+v", c)
		}
	})
}

// FuzzArgs: what the environment says of a container is a name, and no path.
func FuzzArgs(f *testing.F) {
	f.Add("ADD", "c1", "/run/netns/x", "eth0", "A=1;B=2")
	f.Add("DEL", "c1", "", "eth0", "")
	f.Add("CHECK", "../c", "\x00", "a b", ";;=")
	f.Fuzz(func(t *testing.T, command, container, netns, ifname, args string) {
		a, wrong := ReadArgs(func(name string) string {
			return map[string]string{"CNI_COMMAND": command, "CNI_CONTAINERID": container, "CNI_NETNS": netns, "CNI_IFNAME": ifname, "CNI_ARGS": args}[name]
		})
		if wrong != nil {
			if wrong.Code != BadEnv || wrong.Msg == "" {
				t.Fatalf("refused with %+v", wrong)
			}
			return
		}
		if required[command] == nil {
			return
		}
		if len(a.IfName) == 0 || len(a.IfName) > 15 || !isName(a.ContainerID) {
			t.Fatalf("taken: %+v", a)
		}
	})
}

// FuzzResult: a result that was read can be written in every version, and read again.
func FuzzResult(f *testing.F) {
	for _, s := range []string{
		`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","mac":"02:00:00:00:00:01","sandbox":"/x","mtu":1500}],"ips":[{"address":"10.0.0.1/24","gateway":"10.0.0.254","interface":0}],"routes":[{"dst":"0.0.0.0/0"}],"dns":{"nameservers":["10.0.0.2"]}}`,
		`{"cniVersion":"0.3.1","ips":[{"version":"6","address":"fd00::1/64"}]}`, `{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.1/24"}}`, `{"ips":[{"address":"x","interface":-1}]}`, `null`, `[]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseResult(text)
		if err != nil {
			return
		}
		_, _ = r.Has(4), r.Has(6)
		for _, version := range Versions {
			out, err := json.Marshal(r.As(version))
			if err != nil {
				t.Fatalf("as %s: %v", version, err)
			}
			if _, err := ParseResult(out); err != nil {
				t.Fatalf("as %s: %s: %v", version, out, err)
			}
		}
	})
}
