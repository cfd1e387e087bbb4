package cni

import (
	"fmt"
	"testing"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
)

func TestWithCarrier(t *testing.T) {
	for _, c := range []struct {
		name  string
		wants map[string]string
		keys  string
	}{
		{"a cable", map[string]string{"a": `{"veth":{"peer":"b"}}`, "b": `{"veth":{"peer":"a"}}`}, "[interface/a interface/b]"},
		{"an end that is down", map[string]string{"a": `{"enabled":false,"veth":{"peer":"b"}}`, "b": `{"veth":{"peer":"a"}}`}, "[]"},
		{"a peer of others", map[string]string{"a": `{"veth":{"peer":"b"}}`}, "[interface/a]"},
		{"a bridge with a port", map[string]string{"a": `{"master":"br","veth":{"peer":"b"}}`, "b": `{"veth":{"peer":"a"}}`, "br": `{"bridge":{}}`},
			"[interface/a interface/b interface/br]"},
		{"a bridge without ports", map[string]string{"br": `{"bridge":{}}`}, "[]"},
		{"a bridge whose port is down", map[string]string{"a": `{"master":"br","veth":{"peer":"b"}}`, "b": `{"enabled":false,"veth":{"peer":"a"}}`, "br": `{"bridge":{}}`}, "[]"},
		{"a bridge that is down", map[string]string{"a": `{"master":"br","veth":{"peer":"b"}}`, "br": `{"enabled":false,"bridge":{}}`}, "[interface/a]"},
		{"other links", map[string]string{"d": `{"dummy":{}}`, "m": `{"macvlan":{"parent":"d"}}`}, "[]"},
	} {
		var wants []network.Want
		for _, name := range []string{"a", "b", "br", "d", "m"} {
			if text := c.wants[name]; text != "" {
				v, err := models.DecodeKind(models.KindInterface, []byte(text))
				if err != nil {
					t.Fatal(err)
				}
				wants = append(wants, network.Want{Key: models.InterfaceKey(name), Value: v})
			}
		}
		if keys := fmt.Sprint(withCarrier(wants)); keys != c.keys {
			t.Errorf("%s: %s, want %s", c.name, keys, c.keys)
		}
	}
}
