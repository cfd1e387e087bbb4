package main

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/plumb-net/plumb/examples/dataplane/switchd"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// start starts a dataplane without an agent, and a client that is connected.
func start(t *testing.T) (*switchd.Server, *switchd.Client) {
	t.Helper()
	s := switchd.NewServer(filepath.Join(t.TempDir(), "socket"))
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	c := switchd.NewClient(s.Path())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; s.Stop() })
	connected, stop := context.WithCancel(t.Context())
	_ = c.Watch(connected, func(switchd.Event) {
		if _, err := c.State(t.Context()); err == nil {
			stop()
		}
	})
	return s, c
}

func check(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// held are the two ports that the tests of bridges and routes stand on.
type held map[scheduler.Key]uint32

func (h held) Get(k scheduler.Key) (Port, uint32, bool) {
	index, ok := h[k]
	return Port{Tap: nameOf(k, portPrefix)}, index, ok
}

func ground(t *testing.T, c *switchd.Client) held {
	made, errs := c.AddPorts(t.Context(), []switchd.Port{{Tap: "db", Tag: portPrefix + "db"}, {Tap: "web", Tag: portPrefix + "web"}})
	check(t, errs...)
	check(t, c.SetBridge(t.Context(), switchd.Bridge{Name: "lan", Ports: []uint32{made[0].Index, made[1].Index}}))
	return held{portKey("db"): made[0].Index, portKey("web"): made[1].Index}
}

func TestPortsConform(t *testing.T) {
	s, c := start(t)
	schedulertest.Conform(t, ports(c), schedulertest.Spec[Port, uint32]{
		Samples: []schedulertest.Sample[Port]{
			{Key: portKey("db"), Values: []Port{{Tap: "db"}, {Tap: "db2"}}},
			{Key: portKey("web"), Values: []Port{{Tap: "web"}}},
		},
		Refused: map[scheduler.Key]Port{portKey("none"): {}},
		Restart: func(testing.TB) scheduler.Descriptor[Port, uint32] { return ports(c) },
		Foreign: func(t testing.TB, _ scheduler.Key, v Port) func() bool {
			made, errs := c.AddPorts(context.Background(), []switchd.Port{{Tap: v.Tap, Tag: "somebody"}})
			check(t, errs...)
			t.Cleanup(func() { check(t, c.DeletePorts(context.Background(), made[0].Index)...) })
			return func() bool { return slices.Contains(s.State().Ports, made[0]) }
		},
		Stall: func(testing.TB) func() { return s.Hang() },
	})
}

func TestBridgesConform(t *testing.T) {
	s, c := start(t)
	view := ground(t, c)
	check(t, c.DeleteBridge(t.Context(), "lan"))
	schedulertest.Conform(t, bridges(c, view), schedulertest.Spec[Bridge, none]{
		Samples: []schedulertest.Sample[Bridge]{
			{Key: bridgePrefix + "lan", Values: []Bridge{{Ports: []string{"db", "web"}}, {Ports: []string{"web"}}, {}}},
			{Key: bridgePrefix + "wan", Values: []Bridge{{Ports: []string{"web"}}}},
		},
		Restart: func(testing.TB) scheduler.Descriptor[Bridge, none] { return bridges(c, view) },
		Stall:   func(testing.TB) func() { return s.Hang() },
		Clone:   func(b Bridge) Bridge { return Bridge{Ports: slices.Clone(b.Ports)} },
	})
}

func TestRoutesConform(t *testing.T) {
	s, c := start(t)
	view := ground(t, c)
	schedulertest.Conform(t, routes(c, view), schedulertest.Spec[Route, none]{
		Samples: []schedulertest.Sample[Route]{
			{Key: routePrefix + "10.1.0.0/16", Values: []Route{{Bridge: "lan", Port: "web"}, {Bridge: "lan", Port: "db"}}},
			{Key: routePrefix + "10.2.0.0/16", Values: []Route{{Bridge: "lan", Port: "db"}}},
		},
		Restart: func(testing.TB) scheduler.Descriptor[Route, none] { return routes(c, view) },
		Stall:   func(testing.TB) func() { return s.Hang() },
	})
}

func TestCarriersConform(t *testing.T) {
	s, c := start(t)
	ground(t, c)
	s.SetLink(portPrefix+"db", false)
	s.SetLink(portPrefix+"web", false)
	set := func(k scheduler.Key, up bool) { s.SetLink(portPrefix+nameOf(k, carrierPrefix), up) }
	schedulertest.Conform(t, carriers(c), schedulertest.Spec[Carrier, none]{
		Samples: []schedulertest.Sample[Carrier]{
			{Key: carrierKey("db"), Values: []Carrier{{}}}, {Key: carrierKey("web"), Values: []Carrier{{}}},
		},
		Make:   func(_ testing.TB, k scheduler.Key, v Carrier) Carrier { set(k, true); return v },
		Remove: func(_ testing.TB, k scheduler.Key) { set(k, false) },
		Stall:  func(testing.TB) func() { return s.Hang() },
	})
}
