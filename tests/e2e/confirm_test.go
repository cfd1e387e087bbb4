package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

var confirms = flag.Int("confirms", 8, "how often an agent is killed while a change waits to be confirmed")

// trialIntent changes the goods of a shop: an address, a route and a cable change, a link
// comes, a link goes with prune, and more routes come than may go at once by the policy
// deletions, unless they are taken back.
var trialIntent = `
intent:
  interface/br0: {bridge: {}, mac_address: "02:00:00:00:00:fe", addresses: [10.40.0.253/24]}
  interface/a: {veth: {peer: b}, mac_address: "02:00:00:00:00:0a"}
  interface/b: {veth: {peer: a}, mac_address: "02:00:00:00:00:0b", addresses: [10.42.0.1/24]}
  interface/tap1: {tap: {}, mac_address: "02:00:00:00:00:02"}
  route/lan: {interface: br0, destination: 10.41.0.0/16, gateway: 10.40.0.2}
` + manyRoutes(30)

func manyRoutes(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "  route/many%d: {interface: br0, destination: 10.43.%d.0/24, gateway: 10.40.0.2}\n", i, i)
	}
	return all.String()
}

// confirmTime is for how long the changes of this test wait.
const confirmTime = 2 * time.Second

// TestConfirmKilled: the agent is killed at any time while a change waits to be confirmed
// and starts again before or after the deadline, with the store and without. In the end the
// host is as it was or as the change has it, as was said, and never in between.
func TestConfirmKilled(t *testing.T) {
	t.Parallel()
	e := etcdtest.Start(t)
	c := &confirming{shop: openShop(t, e.URL()), e: e, rng: rand.New(rand.NewPCG(1, 0)), dir: t.TempDir()}
	var old strings.Builder
	old.WriteString("intent:\n")
	for key, value := range goods {
		fmt.Fprintf(&old, "  %s: %s\n", key, value)
	}
	c.file("old.yaml", old.String())
	c.file("new.yaml", trialIntent)
	c.apply("old.yaml")
	c.old = quiet(c.Host, c.Picture)
	c.apply("new.yaml")
	c.new = quiet(c.Host, c.Picture)
	c.apply("old.yaml")
	if err := same(c.old, quiet(c.Host, c.Picture)); err != nil {
		t.Fatal(err)
	}
	ways := []string{"is confirmed", "expires", "has a probe that fails", "loses etcd"}
	for i := range *confirms {
		t.Logf("round %d: it %s", i, ways[i%len(ways)])
		c.round(ways[i%len(ways)])
	}
}

type confirming struct {
	*shop
	e        *etcdtest.Server
	rng      *rand.Rand
	dir      string
	old, new string
}

func (c *confirming) file(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *confirming) args(file string, more ...string) []string {
	return append([]string{"apply", "-f", filepath.Join(c.dir, file), "--set", "site", "--prune"}, more...)
}

func (c *confirming) apply(file string) {
	c.t.Helper()
	c.MustCtl(c.args(file)...)
	c.Ctl("release") // what goes may be too much for one apply, which is meant
	c.MustCtl("wait", "--all", "--for", "settled", "--timeout", "30s")
}

// someTime is random, below twice the time for which a change waits.
func (c *confirming) someTime() time.Duration {
	return time.Duration(c.rng.Int64N(int64(2 * confirmTime)))
}

// round makes the change, kills the agent at some time, and sees what comes of it.
func (c *confirming) round(how string) {
	t := c.t
	t.Helper()
	args := c.args("new.yaml", "--confirm", confirmTime.String())
	if how == "has a probe that fails" {
		args = append(args, "--probe", "exec:exit 7")
	}
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	apply := c.CtlCommand(ctx, args...)
	if err := apply.Start(); err != nil {
		t.Fatal(err)
	}
	early := c.rng.IntN(3) == 0 // within the apply itself
	if early {
		time.Sleep(time.Duration(c.rng.Int64N(int64(30 * time.Millisecond))))
	} else {
		_ = apply.Wait()
	}
	if how == "loses etcd" {
		c.e.Stop()
	}
	if !early {
		time.Sleep(c.someTime())
	}
	c.Kill9()
	if early {
		_ = apply.Wait()
	}
	time.Sleep(c.someTime())
	c.Launch()
	want := c.old
	switch how {
	case "is confirmed":
		c.AwaitReady()
		if c.Ctl("confirm").Code == 0 {
			want = c.new
		}
	case "loses etcd":
		c.becomes(c.old)
		c.e.Start()
		c.AwaitReady()
		time.Sleep(confirmTime / 2)
	}
	time.Sleep(time.Until(began.Add(confirmTime)))
	c.AwaitReady()
	c.becomes(want)
	c.Eventually("nothing waits", func() error {
		if _, err := os.Stat(filepath.Join(c.StateDir(), "confirm.json")); err == nil {
			return errors.New("a change still waits")
		}
		return nil
	})
	if err := same(want, c.Picture()); err != nil {
		t.Error(err)
	}
	if r := c.Ctl("diff"); r.Code != 0 {
		t.Errorf("%s: diff: %s", how, r.Out+r.Err)
	}
	if want == c.new {
		c.apply("old.yaml")
		c.becomes(c.old)
	}
}

// becomes waits until the kernel is as it should be.
func (c *confirming) becomes(want string) {
	c.t.Helper()
	c.Within(host.Patience, "the host is old or new", func() error { return same(want, c.Picture()) })
}
