package iface_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/scheduler"
)

// A name that another link has is told with that link, and what had it keeps it.
func TestAlternativeNameThatIsTaken(t *testing.T) {
	b := newBench(t)
	b.own.IP(t, "link add theirs type bridge")
	b.own.IP(t, "link property add dev theirs altname another")
	b.make("ours", `{"bridge":{},"alternative_names":["one"]}`)
	for _, c := range []struct{ value, on, says string }{
		{`{"bridge":{},"alternative_names":["theirs"]}`, "", "the alternative name theirs is a name of the bridge theirs already, which is not ours; choose another"},
		{`{"bridge":{},"alternative_names":["another"]}`, "", "ip link property del dev theirs altname another"},
		{`{"bridge":{},"host_name":"another"}`, "", "another is an alternative name of the bridge theirs in the agent's own namespace, which is not ours; choose another host_name"},
		{`{"bridge":{},"alternative_names":["ours"]}`, "interface/ours", "the alternative name ours is in use by interface/ours"},
		{`{"bridge":{},"host_name":"one"}`, "interface/ours", "the name one in the agent's own namespace is in use by interface/ours"},
	} {
		_, err := b.try("x", c.value)
		var class *scheduler.OpError
		if !errors.As(err, &class) || string(class.On) != c.on || c.on == "" && class.Owner == "" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v (%+v)", c.value, err, class)
		}
		b.own.Try("ip", "link", "del", "dev", "x")
		b.restart()
		b.make("ours", `{"bridge":{},"alternative_names":["one"]}`)
	}
	if names := fmt.Sprint(b.own.Show(t, "theirs")["altnames"]); names != "[another]" {
		t.Errorf("theirs has %s", names)
	}
}

// The ledger keeps which names are ours until they are off: an update that fails, or a wish that changes
// while there is no agent, leaves none behind.
func TestAlternativeNamesAfterARestart(t *testing.T) {
	b := newBench(t)
	b.make("br", `{"bridge":{},"alternative_names":["one","two"]}`)
	b.own.IP(t, "link property add dev br altname theirs")
	b.own.IP(t, "link add three type bridge")
	if err := b.update("br", `{"bridge":{},"alternative_names":["two","three"]}`); err == nil {
		t.Fatal("it has a name that is taken")
	}
	b.own.IP(t, "link del dev three")
	b.own.IP(t, "link property add dev br altname one") // as if it had ended before that
	b.restart()
	k, _ := b.want("br", `{"bridge":{},"alternative_names":["two","three"]}`)
	f := b.look("br")[k]
	if got := fmt.Sprint(f.Value.GetAlternativeNames()); got != "[two one]" {
		t.Errorf("found %s", got)
	}
	b.self.put(k, f.Value, f.Meta)
	if err := b.update("br", `{"bridge":{},"alternative_names":["two","three"]}`); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(b.own.Show(t, "br")["altnames"]); got != "[two theirs three]" {
		t.Errorf("it has %s", got)
	}
	b.restart()
	b.want("br", `{"bridge":{},"alternative_names":["three"]}`)
	if got := fmt.Sprint(b.look("br")[k].Value.GetAlternativeNames()); got != "[two three]" {
		t.Errorf("found %s", got)
	}
}

// TestExistingByAlternativeName uses a link of others by a second name of it. The link is found as
// wanted, and what others do to it is no news.
func TestExistingByAlternativeName(t *testing.T) {
	b := newBench(t)
	b.own.IP(t, "link add theirs type bridge")
	b.own.IP(t, "link property add dev theirs altname short")
	b.own.IP(t, "link set theirs up") // of a link that is down the kernel does not report names
	b.make("fence", `{"bridge":{}}`)
	n := b.follow()
	b.make("up", `{"existing":{},"host_name":"short"}`)
	b.same("up")
	b.own.IP(t, "link set theirs mtu 1400")
	if keys := b.drain(n); len(keys) != 0 {
		t.Errorf("what others do to their link is news: %v", keys)
	}
	b.own.IP(t, "link property del dev theirs altname short")
	n.reports(t, "interface/up")
}
