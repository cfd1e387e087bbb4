package cni

import (
	"encoding/json"
	"testing"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/wire"
)

// FuzzRequest: whatever is asked at the socket is refused with a code, or makes values
// that are valid: nothing that is wrong reaches the scheduler.
func FuzzRequest(f *testing.F) {
	for _, config := range []string{
		`{"cniVersion":"1.0.0","name":"blue","pool":"10.1.0.0/16"}`,
		`{"cniVersion":"1.0.0","name":"blue","pool":"10.1.0.0/16","mode":"routed","masquerade":true,"mtu":1400,"sysctl":{"net.ipv4.conf.IFNAME.arp_filter":"1"}}`,
		`{"cniVersion":"1.1.0","name":"blue","pool":["10.1.0.0/16","fd00::/64"],"runtimeConfig":{"ips":["10.1.0.9/16"],"mac":"02:00:00:00:00:01","portMappings":[{"hostPort":80,"containerPort":8080,"protocol":"tcp"}],"bandwidth":{"ingressRate":1}}}`,
		`{"cniVersion":"1.0.0","name":"blue","pool":"office"}`, `{"cniVersion":"1.0.0","name":"blue","mode":"intent"}`, `{"cniVersion":"1.0.0","name":"blue","pool":"10.1.0.0/32"}`,
		`{"cniVersion":"1.0.0","name":"blue","ipam":{"type":"static"}}`,
	} {
		f.Add([]byte(`{"protocol":1,"command":"ADD","container_id":"c1","netns":"/run/netns/7","ifname":"eth0","inode":7,"args":"K8S_POD_NAME=web;K8S_POD_NAMESPACE=x;IP=10.1.0.7;MAC=02:00:00:00:00:02","config":` + config + `,"ipam":{"cniVersion":"1.0.0","ips":[{"address":"10.9.0.1/24","gateway":"10.9.0.254"}],"routes":[{"dst":"0.0.0.0/0"}]}}`))
	}
	f.Add([]byte(`{"command":"DEL","queued":1,"container_id":"c","ifname":"e","config":{"cniVersion":"1.0.0","name":"b"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r wire.Request
		if json.Unmarshal(text, &r) != nil {
			return
		}
		c, wrong := Parse(r)
		if wrong == nil && c.Command == "ADD" {
			n, refused := network.New(c.Network, offices, c.IPAM)
			wrong = refused
			if wrong == nil {
				var wants []network.Want
				if wants, wrong = attach(n, c); wrong == nil {
					valid(t, append(n.Shared, wants...))
				}
			}
		}
		if wrong != nil && (wrong.Code == 0 || wrong.Msg == "") {
			t.Fatalf("refused with %+v", wrong)
		}
	})
}

func valid(t *testing.T, wants []network.Want) {
	t.Helper()
	for _, w := range wants {
		if err := models.Validate(w.Key, w.Value); err != nil {
			t.Fatalf("%s: %v", w.Key, err)
		}
	}
}
