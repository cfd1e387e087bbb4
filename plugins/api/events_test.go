package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/events"
)

// TestWatchEvents: events come as they happen, cancelling ends the watch
// in the agent too, and another one goes on where it ended.
func TestWatchEvents(t *testing.T) {
	w := apitest.New()
	w.Events = events.New(events.Limits{}, nil, 0)
	c := dial(t, apitest.Serve(t, w.Config()))
	build(t, w, `event {"Type":"created","ID":"a","Name":"web"}`)
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := c.WatchEvents(ctx, &apiv1.EventsRequest{Container: "web"})
	if err != nil {
		t.Fatal(err)
	}
	next := func() string {
		t.Helper()
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		var b strings.Builder
		for _, e := range stream.Msg().Events {
			fmt.Fprintf(&b, "%d %s;", e.Seq, e.Type)
		}
		return fmt.Sprint(b.String(), stream.Msg().UpTo)
	}
	if got := next(); got != "1" {
		t.Errorf("at once: %s", got)
	}
	build(t, w, `event {"Type":"started","ID":"b","Name":"other"}
		event {"Type":"started","ID":"a","Name":"web"}`)
	if got := next(); got != "3 started;3" {
		t.Errorf("live: %s", got)
	}
	cancel()
	stream.Close()
	for end := time.Now().Add(2 * time.Minute); w.Events.Stats().Watchers > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the agent still watches")
		}
	}
	build(t, w, `event {"Type":"died","ID":"a","Name":"web","Exit":{"Code":3}}`)
	stream, err = c.WatchEvents(t.Context(), &apiv1.EventsRequest{Container: "web", After: proto.Uint64(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if got := next() + " " + next(); got != "1 3 started;4 died;4" {
		t.Errorf("resumed: %s", got)
	}
}

// TestDeadClient: a client that never reads harms nobody: events are taken
// in, others see them, and the agent stops.
func TestDeadClient(t *testing.T) {
	w := apitest.New()
	w.Events = events.New(events.Limits{}, nil, 0)
	c := dial(t, apitest.Serve(t, w.Config()))
	dead, err := c.WatchEvents(t.Context(), &apiv1.EventsRequest{After: proto.Uint64(0)})
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	long := strings.Repeat("x", 2000)
	const many = 10_000
	for range many {
		build(t, w, `event {"Type":"started","ID":"a","Name":"`+long+`"}`)
	}
	other, err := c.WatchEvents(t.Context(), &apiv1.EventsRequest{After: proto.Uint64(0)})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	last := uint64(0)
	for last < many && other.Receive() {
		last = other.Msg().UpTo
	}
	if last != many {
		t.Errorf("the other one saw %d: %v", last, other.Err())
	}
}

func TestEventsAreRefused(t *testing.T) {
	w, c := start(t)
	if _, err := c.Events(t.Context(), &apiv1.EventsRequest{Types: []string{"died", "dead"}}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Error(err)
	}
	w.Events = nil
	if _, err := dial(t, apitest.Serve(t, w.Config())).Events(t.Context(), &apiv1.EventsRequest{}); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Error(err)
	}
}
