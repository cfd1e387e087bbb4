package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestRepairWithoutWaiting breaks the same link time after time, in ways that make other
// repairs fail in the middle: an address is added while the link is on its way out, a route
// while its interface is down. What waits for another key is tried when that is back,
// and not after a second.
func TestRepairWithoutWaiting(t *testing.T) {
	h := host.New(t, host.Options{NoEngine: true}) // alone: half a second must be enough
	h.Start()
	h.MustCtl("put", "netns/blue", "{}")
	const links = 12
	var keys []string
	put := func(key, format string, args ...any) {
		h.Put(key, fmt.Sprintf(format, args...))
		keys = append(keys, key)
	}
	for i := range links {
		put(fmt.Sprint("interface/in", i), `{"namespace":{"netns":"blue"},"host_name":"e%d","addresses":["10.91.%[1]d.10/24"],"veth":{"peer":"out%[1]d"}}`, i)
		put(fmt.Sprint("interface/out", i), `{"host_name":"o%d","veth":{"peer":"in%[1]d"}}`, i)
		put(fmt.Sprint("route/gw", i), `{"interface":"in%d","destination":"10.92.%[1]d.0/24","gateway":"10.91.%[1]d.1"}`, i)
		put(fmt.Sprint("route/link", i), `{"interface":"in%d","destination":"10.93.%[1]d.0/24"}`, i)
	}
	h.AwaitConfigured(keys...)
	places := map[string]*netlinktest.Namespace{"blue": h.Named("blue"), "own": h.Places()["own"]}
	before := shape(t, places)
	for i := range links {
		for _, c := range []struct{ place, command string }{
			{"blue", "addr flush dev e%d"}, {"blue", "link set e%d down"}, {"own", "link del o%d"},
		} {
			command := fmt.Sprintf(c.command, i)
			places[c.place].IP(t, command)
			took := h.Within(repairLimit, "it is right again", func() error {
				if now := shape(t, places); now != before {
					return errors.New("it differs:\n" + host.Diff(before, now))
				}
				return nil
			})
			h.AwaitConfigured(keys...)
			t.Log(command, took.Round(time.Millisecond))
			if took > repairGoal/2 {
				t.Errorf("%s was repaired after %v, so something waited for time:\n%s", command, took.Round(time.Millisecond), tail(h.Done()))
			}
		}
	}
}

// tail is the end of what was done.
func tail(done string) string {
	lines := strings.Split(done, "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}
