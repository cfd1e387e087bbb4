package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/examples/dataplane/switchd"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// story is a dataplane and its agent, and where their story is told.
type story struct {
	out   io.Writer
	plane *switchd.Server
	agent *Agent
	heard *scheduler.Watcher
}

// tell tells the whole story in the network namespace at a path.
func tell(ctx context.Context, out io.Writer, netns string) error {
	dir, err := os.MkdirTemp("", "dataplane")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "switchd.sock")
	agent, err := NewAgent(socket, netns)
	if err != nil {
		return err
	}
	s := &story{out: out, plane: switchd.NewServer(socket), agent: agent}
	if err := s.plane.Start(); err != nil {
		return err
	}
	defer func() { s.plane.Stop() }()

	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	s.heard = agent.Watch()
	err = s.tellAll(ctx)
	s.heard.Stop()
	stop()
	if failed := <-ended; err == nil {
		err = failed
	}
	return err
}

func (s *story) tellAll(ctx context.Context) error {
	if err := s.await(ctx, scheduler.Observed, processKey); err != nil {
		return err
	}
	for _, c := range s.chapters() {
		if err := s.play(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// What the operator wants.
var (
	taps = []scheduler.Change{
		scheduler.Set("interface/db", tap()), scheduler.Set("interface/web", tap()),
	}
	network = []scheduler.Change{
		scheduler.Set(portKey("db"), Port{Tap: "db"}), scheduler.Set(portKey("web"), Port{Tap: "web"}),
		scheduler.Set(bridgePrefix+"lan", Bridge{Ports: []string{"db", "web"}}),
		scheduler.Set(routePrefix+"10.1.0.0/16", Route{Bridge: "lan", Port: "web"}),
		scheduler.Set(routePrefix+"10.2.0.0/16", Route{Bridge: "lan", Port: "web"}),
	}
)

func tap() *models.Interface {
	return &models.Interface{Link: &models.Interface_Tap{Tap: &models.Tap{}}}
}

// keys of changes.
func keys(changes ...scheduler.Change) (list []scheduler.Key) {
	for _, c := range changes {
		list = append(list, c.Key)
	}
	return list
}

// chapter is one step: something is done, and awaited is what comes of it.
type chapter struct {
	title string
	do    func(ctx context.Context) error
	// until reports whether the dataplane is as it should become; nil does not ask.
	until func(switchd.State) bool
	state scheduler.State // of the keys
	keys  []scheduler.Key
	// chance: the way there may be another each time, so only the end is told.
	chance bool
}

func (s *story) chapters() []chapter {
	all, routes := keys(slices.Concat(taps, network)...), keys(network[3:]...)
	third := scheduler.Set(routePrefix+"10.3.0.0/16", Route{Bridge: "lan", Port: "db"})
	hasRoutes := func(n int) func(switchd.State) bool {
		return func(now switchd.State) bool { return len(now.Routes) == n }
	}
	var old switchd.State
	return []chapter{{
		title: "The dataplane's part is wanted. There are no taps, so all of it is pending.",
		do:    s.want(network...),
		state: scheduler.Pending, keys: keys(network...),
	}, {
		title: "The taps are wanted as well. Everything goes ahead, in order.",
		do:    s.want(taps...), until: hasRoutes(2),
		state: scheduler.Configured, keys: all,
	}, {
		title: "The link of web goes down. Its routes leave.",
		do:    s.link("web", false), until: hasRoutes(0),
		state: scheduler.Pending, keys: routes,
	}, {
		title: "The link is back, and so are they.",
		do:    s.link("web", true), until: hasRoutes(2),
		state: scheduler.Configured, keys: all,
	}, {
		title:  "Somebody deletes the tap of web. It is made again, the port gets another index, and what was built with the old one is built anew.",
		do:     func(context.Context) error { old = s.plane.State(); return s.deleteTap() },
		until:  func(now switchd.State) bool { return len(now.Routes) == 2 && now.Routes[0].Port != old.Routes[0].Port },
		chance: true,
		state:  scheduler.Configured, keys: all,
	}, {
		title: "The connection breaks, and comes back to the same dataplane. Nothing is to be done.",
		do:    s.reconnect,
		state: scheduler.Configured, keys: all,
	}, {
		title: "The dataplane ends. What is there is unknown: nothing new is built on it, and nothing is torn down.",
		do:    func(ctx context.Context) error { s.plane.Stop(); return s.lost(ctx, third) },
		state: scheduler.Pending, keys: keys(third),
	}, {
		title: "It starts again, with nothing in it. All is built anew, in order.",
		do:    func(context.Context) error { return s.plane.Start() }, until: hasRoutes(3),
		state: scheduler.Configured, keys: append(slices.Clone(all), third.Key),
	}, {
		title: "Nothing is wanted any more.",
		do:    func(ctx context.Context) error { return s.apply(ctx, scheduler.Txn{Complete: true}) },
		state: scheduler.Absent, keys: all,
	}}
}

func (s *story) want(changes ...scheduler.Change) func(context.Context) error {
	return func(ctx context.Context) error { return s.apply(ctx, scheduler.Txn{Want: changes}) }
}

func (s *story) link(port string, up bool) func(context.Context) error {
	return func(context.Context) error { s.plane.SetLink(portPrefix+port, up); return nil }
}

// apply waits until all that can happen has happened; what became of the keys
// is shown by the chapter.
func (s *story) apply(ctx context.Context, t scheduler.Txn) error {
	_, err := s.agent.Apply(ctx, t)
	return err
}

func (s *story) deleteTap() error {
	k := s.agent.kernel
	l, err := k.Link(k.Own(), "web")
	if err != nil {
		return err
	}
	return k.DeleteLink(k.Own(), l.Index)
}

func (s *story) reconnect(ctx context.Context) error {
	s.plane.Disconnect()
	for ctx.Err() == nil {
		if _, err := s.agent.client.State(ctx); err == nil {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}

// lost waits until the agent knows that it does not know, and wants something. Then it
// waits until everything that this stands on is found to be unreadable, kind by kind.
func (s *story) lost(ctx context.Context, c scheduler.Change) error {
	if err := s.await(ctx, scheduler.Unknown, processKey); err != nil {
		return err
	}
	if err := s.apply(ctx, scheduler.Txn{Want: []scheduler.Change{c}}); err != nil {
		return err
	}
	for {
		switch st, err := s.agent.Get(ctx, c.Key); {
		case err != nil:
			return err
		case len(st.Missing) == 4:
			return nil
		}
		if _, _, err := s.heard.Next(ctx); err != nil {
			return err
		}
	}
}

// await follows what the agent says until the keys are in the state.
func (s *story) await(ctx context.Context, state scheduler.State, keys ...scheduler.Key) error {
	for !s.are(ctx, state, keys) {
		if _, _, err := s.heard.Next(ctx); err != nil {
			return fmt.Errorf("not all of %v are %s: %w", keys, state, err)
		}
	}
	return nil
}

// play does what the chapter is about and waits until all is as it should be.
func (s *story) play(ctx context.Context, c chapter) error {
	fmt.Fprintf(s.out, "# %s\n\n", c.title)
	if err := c.do(ctx); err != nil {
		return err
	}
	for {
		if c.until == nil || c.until(s.plane.State()) {
			// The dataplane is done; the agent has to hear of it.
			if err := s.apply(ctx, scheduler.Txn{LookAll: true}); err != nil {
				return err
			}
			if s.are(ctx, c.state, c.keys) {
				return s.show(ctx, c.chance)
			}
		}
		if _, _, err := s.heard.Next(ctx); err != nil {
			return fmt.Errorf("not all of %v are %s: %w", c.keys, c.state, err)
		}
	}
}

func (s *story) are(ctx context.Context, state scheduler.State, keys []scheduler.Key) bool {
	return !slices.ContainsFunc(keys, func(k scheduler.Key) bool {
		st, _ := s.agent.Get(ctx, k) // a key that nobody knows is absent
		return st.State != state
	})
}

// show prints what the agent says, what the dataplane was asked to do, and what
// it has.
func (s *story) show(ctx context.Context, chance bool) error {
	list, err := s.agent.List(ctx)
	for _, st := range list {
		var missing []string
		for _, m := range st.Missing {
			missing = append(missing, m.Need+" ("+m.Why+")")
		}
		line := fmt.Sprintf("%-21s %-10s %s", st.Key, st.State, strings.Join(missing, ", "))
		fmt.Fprintln(s.out, "   ", strings.TrimSpace(line))
	}
	for _, c := range joined(s.plane.Changes()) {
		if !chance {
			fmt.Fprintln(s.out, "    >", c.Op, strings.Join(c.Things, ", "))
		}
	}
	now := s.plane.State()
	for _, b := range now.Bridges {
		fmt.Fprintf(s.out, "    = bridge %s of %v\n", b.Name, b.Ports)
	}
	for _, r := range now.Routes {
		fmt.Fprintf(s.out, "    = route %s by %d\n", r.Network, r.Port)
	}
	fmt.Fprintln(s.out)
	return err
}

// joined are requests with those that follow each other and ask the same put
// together: which things of a kind are ready at the same time is chance, their
// order by need is not.
func joined(changes []switchd.Change) (list []switchd.Change) {
	for _, c := range changes {
		if n := len(list); n > 0 && list[n-1].Op == c.Op {
			c.Things = slices.Concat(list[n-1].Things, c.Things)
			list = list[:n-1]
		}
		slices.Sort(c.Things)
		list = append(list, c)
	}
	return list
}
