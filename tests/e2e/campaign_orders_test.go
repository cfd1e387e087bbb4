package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestAnyOrder writes the same intent in 50 orders, half of them with an etcd that does not
// end with the agent. Containers start and are killed on the way, the agent is stopped and
// killed, values are replaced, made invalid and corrected, and others claim what is ours. It
// always comes to what the straight way comes to, as ip(8) shows it in every namespace.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	const rounds = 25
	random := draw(t)
	var straight [2]string
	for i, name := range stores {
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrders(t, host.Options{Parallel: true, Fast: true, Etcd: storeURL(t, name), Args: anyDeletions})
			want := o.straight()
			straight[i] = want
			began := time.Now()
			for round := range rounds {
				story := o.story(own)
				o.play(own, story)
				if err := o.becomes(want); err != nil {
					t.Fatalf("round %d:\n%s\n%v", round, tell(story), err)
				}
				o.clear()
			}
			t.Logf("%d orders of %d keys in %v", rounds, len(office), time.Since(began).Round(time.Second))
		})
	}
	t.Cleanup(func() { // when both have ended
		if err := same(straight[0], straight[1]); err != nil && !slices.Contains(straight[:], "") {
			t.Error(err)
		}
	})
}

// orders is a host on which one order is played after the other.
type orders struct {
	*host.Host
	t     *testing.T
	store *store
	empty string // what the own namespace looks like without us
}

func newOrders(t *testing.T, opt host.Options) *orders {
	o := &orders{Host: host.New(t, opt), t: t}
	o.store = operator(t, o.Host)
	o.empty = o.Exact()
	for _, name := range services {
		o.Run(name, ipv6...)
		o.Docker("kill", o.ContainerName(name))
	}
	return o
}

var services = []string{"web", "db"}

// straight is the way without detours.
func (o *orders) straight() string {
	o.t.Helper()
	o.services("start")
	o.Start()
	o.store.commit(office.ops(o.store)...)
	awaitIntent(o.Host, office)
	o.AwaitNoDifference()
	picture := quiet(o.Host, func() string { return view(o.Host) })
	for _, to := range []string{"10.50.0.2", "10.50.0.3", "10.50.0.254"} {
		if err := o.Ping("web", to); err != nil {
			o.t.Fatal(err)
		}
	}
	o.clear()
	return picture
}

// becomes waits until all is configured, and for the carrier of links, which
// the kernel finds out a moment later.
func (o *orders) becomes(want string) (err error) {
	o.t.Helper()
	awaitIntent(o.Host, office)
	o.AwaitNoDifference()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		if err = same(want, view(o.Host)); err == nil {
			return nil
		}
	}
	return err
}

// clear takes the intent back, and sees that nothing is left of it.
func (o *orders) clear() {
	o.t.Helper()
	o.store.deleteAll()
	awaitGone(o.t, o.Host, office)
	o.services("kill")
	o.Stop()
	o.Eventually("the host is as it was", func() error { return same(o.empty, o.Exact()) })
}

func (o *orders) container(verb, name string) {
	o.t.Helper()
	if _, err := o.Engine.Try(verb, o.ContainerName(name)); err != nil {
		o.t.Error(err)
	}
}

// services does something to all containers at once.
func (o *orders) services(verb string) {
	o.t.Helper()
	var all sync.WaitGroup
	for _, name := range services {
		all.Go(func() { o.container(verb, name) })
	}
	all.Wait()
}

// step is one thing that happens on the way.
type step struct {
	what string
	do   func()
}

func tell(story []step) string {
	var b strings.Builder
	for _, s := range story {
		fmt.Fprintln(&b, " ", s.what)
	}
	return b.String()
}

// story draws what happens: threads whose steps stay in order, mixed at random.
func (o *orders) story(random *rand.Rand) []step {
	var threads [][]step
	for _, k := range office.keys() {
		threads = append(threads, o.writes(random, k))
	}
	for _, k := range thieves.keys() {
		if random.IntN(2) == 0 {
			threads = append(threads, []step{o.write(k, thieves[k]), o.withdraw(k)})
		}
	}
	if random.IntN(3) == 0 {
		threads = append(threads, o.squatter())
	}
	return append([]step{{"agent starts", o.Start}}, o.restarts(random, mix(random, threads))...)
}

// writes are the values of a key, the right one last.
func (o *orders) writes(random *rand.Rand, key string) (w []step) {
	if other := detours[key]; random.IntN(2) == 0 {
		w = append(w, o.write(key, other[random.IntN(len(other))]))
		switch random.IntN(4) {
		case 0:
			w = append(w, o.write(key, office[key]), o.withdraw(key))
		case 1:
			w = append(w, o.write(key, other[random.IntN(len(other))]))
		}
	}
	return append(w, o.write(key, office[key]))
}

func (o *orders) write(key, value string) step {
	return step{"put " + key + " " + value, func() { o.store.put(key, value) }}
}

func (o *orders) withdraw(key string) step {
	return step{"delete " + key, func() { o.store.delete(key) }}
}

// play plays a story, while the containers live lives of their own.
func (o *orders) play(random *rand.Rand, story []step) {
	o.t.Helper()
	var all sync.WaitGroup
	begin := map[int][]func(){}
	for _, name := range services {
		at := random.IntN(len(story))
		life := []string{"start", "kill", "start"}[2*random.IntN(2):]
		begin[at] = append(begin[at], func() {
			for _, verb := range life {
				o.container(verb, name)
			}
		})
		story[at].what += fmt.Sprintf("  (from here: %s %s)", name, strings.Join(life, ", "))
	}
	for i, s := range story {
		for _, live := range begin[i] {
			all.Go(live)
		}
		s.do()
	}
	all.Wait()
}

// squatter is somebody else who has the name first.
func (o *orders) squatter() []step {
	ip := func(args string) step {
		return step{"ip " + args, func() { _, _ = o.Own.Try(append([]string{"ip"}, strings.Fields(args)...)...) }}
	}
	return []step{ip("link add vx type bridge"), ip("link delete vx type bridge")}
}

// restarts puts restarts of the agent between the steps.
func (o *orders) restarts(random *rand.Rand, story []step) []step {
	restart := []step{
		{"agent is killed and starts", func() { o.Kill9(); o.Launch() }},
		{"agent stops and starts", func() { o.AwaitReady(); o.Stop(); o.Launch() }},
	}
	for range random.IntN(3) {
		at := random.IntN(len(story) + 1)
		story = append(story[:at:at], append([]step{restart[random.IntN(2)]}, story[at:]...)...)
	}
	return append(story, step{"agent is ready", o.AwaitReady})
}

// mix draws one thread after the other for the next step.
func mix(random *rand.Rand, threads [][]step) (story []step) {
	for len(threads) > 0 {
		i := random.IntN(len(threads))
		story = append(story, threads[i][0])
		if threads[i] = threads[i][1:]; len(threads[i]) == 0 {
			threads = append(threads[:i], threads[i+1:]...)
		}
	}
	return story
}
