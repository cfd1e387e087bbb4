package api_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

func TestWatch(t *testing.T) {
	w, c := start(t)
	build(t, w, `
		{"key":"interface/web","state":"pending","reason":"no container"}
		{"key":"route/r1","state":"pending"}`)
	stream, err := c.Watch(context.Background(), &apiv1.WatchRequest{Targets: []string{"interface"}})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	next := func() string {
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		var b strings.Builder
		for _, k := range stream.Msg().Changes {
			fmt.Fprintf(&b, "%s %s;", k.Key, k.State)
		}
		return fmt.Sprint(b.String(), stream.Msg().InSync)
	}
	if got := next(); got != "interface/web pending;true" {
		t.Errorf("picture: %s", got)
	}
	build(t, w, `
		{"key":"route/r1","state":"configured"}
		{"key":"interface/web","state":"configured"}`)
	if got := next(); got != "interface/web configured;true" {
		t.Errorf("change: %s", got)
	}
	build(t, w, `{"key":"interface/web","state":"removed"}`)
	if got := next(); got != "interface/web removed;true" {
		t.Errorf("end: %s", got)
	}
}

// TestSlowWatcher: one who does not read blocks nobody, and the agent stops
// all the same.
func TestSlowWatcher(t *testing.T) {
	w, c := start(t)
	slow, err := c.Watch(context.Background(), &apiv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if !slow.Receive() {
		t.Fatal(slow.Err())
	}
	fast, err := c.Watch(context.Background(), &apiv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer fast.Close()
	// More than any buffer on the way holds.
	big := strings.Repeat("x", 1<<20)
	for i := range 8 {
		w.Engine.Set(scheduler.Status{Key: "interface/web", State: scheduler.Failed, Reason: fmt.Sprint(i, big)})
		for {
			if !fast.Receive() {
				t.Fatal(fast.Err())
			}
			all := fast.Msg().Changes
			if len(all) > 0 && strings.HasPrefix(all[0].Reason, fmt.Sprint(i, "x")) {
				break
			}
		}
		if _, err := c.Get(context.Background(), &apiv1.GetRequest{Key: "interface/web"}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTooManyWatchers fills the agent with calls that wait, which need no stream each.
func TestTooManyWatchers(t *testing.T) {
	w := apitest.New()
	s, err := api.New(w.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	wait := &apiv1.WaitRequest{Keys: []string{"interface/web"}}
	for range 1024 {
		waiting.Go(func() { _, _ = s.Wait(ctx, wait) })
	}
	w.Engine.Await(1024)
	_, err = s.Wait(ctx, wait)
	if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "1024 calls follow statuses already") {
		t.Errorf("one too many: %v", err)
	}
	cancel()
	waiting.Wait()
	w.Engine.Await(0)
	build(t, w, `{"key":"interface/web","state":"configured"}`)
	if out, err := s.Wait(t.Context(), wait); err != nil || out.Outcome != "met" {
		t.Errorf("after they ended there is room again: %v, %v", out, err)
	}
}

// TestCrowd: many watch a real scheduler while keys change, some of them one key, some
// without values. What each hears last of a key is how that is in the end.
func TestCrowd(t *testing.T) {
	const crowd, keys, rounds = 240, 5, 6
	c, _ := startReal(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	put := func(key string, mtu int) {
		if _, err := c.Put(ctx, &apiv1.PutRequest{Key: key, Text: fmt.Sprintf(`{"mtu":%d,"dummy":{}}`, mtu), Wait: true}); err != nil {
			t.Error(err)
		}
	}
	requests := []*apiv1.WatchRequest{{}, {Targets: []string{"interface/i0"}}, {NoValues: true}}
	heard := func(k *apiv1.KeyStatus, of *apiv1.WatchRequest) bool {
		last := 1000.0 + rounds
		if of.NoValues {
			last = 0
		}
		mtu := k.Desired.GetStructValue().GetFields()["mtu"].GetNumberValue()
		return mtu == last && k.State == "configured" && !k.Busy
	}
	var ready, done sync.WaitGroup
	ready.Add(crowd)
	for i := range crowd {
		done.Go(func() {
			request := requests[i%len(requests)]
			stream, err := c.Watch(ctx, request)
			if err != nil || !stream.Receive() {
				t.Error("no first picture", err)
			}
			ready.Done()
			if err != nil {
				return
			}
			defer stream.Close()
			open := map[string]bool{"interface/i0": true}
			for i := range keys {
				open[fmt.Sprint("interface/i", i)] = len(request.Targets) == 0 || i == 0
			}
			for stream.Receive() {
				for _, k := range stream.Msg().Changes {
					open[k.Key] = !heard(k, request)
				}
				if !slices.Contains(slices.Collect(maps.Values(open)), true) {
					return
				}
			}
			t.Errorf("%v ended before it heard the last of %v: %v", request, open, stream.Err())
		})
	}
	ready.Wait()
	for round := range rounds {
		for i := range keys {
			put(fmt.Sprint("interface/i", i), 1001+round)
		}
	}
	done.Wait()
}

// TestWaitForAll: who waits for all keys waits until all are known.
func TestWaitForAll(t *testing.T) {
	w := apitest.New()
	config, synced := w.Config(), make(chan struct{})
	config.Synced = func(ctx context.Context) error {
		select {
		case <-synced:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("sources not synced: etcd: %w", context.Cause(ctx))
		}
	}
	c := dial(t, apitest.Serve(t, config))
	build(t, w, `{"key":"interface/web","state":"configured"}`)
	out, err := c.Wait(t.Context(), &apiv1.WaitRequest{All: true, For: "settled", Timeout: durationpb.New(time.Millisecond)})
	if err != nil || out.Outcome != "timed out" || len(out.Notes) != 1 || out.Notes[0] != "sources not synced: etcd: timed out" {
		t.Errorf("%v, %v", out, err)
	}
	go func() {
		build(t, w, `{"key":"route/r1","state":"pending"}`)
		close(synced)
	}()
	out, err = c.Wait(t.Context(), &apiv1.WaitRequest{All: true, For: "settled"})
	if err != nil || out.Outcome != "met" || len(out.Keys) != 2 {
		t.Errorf("%v, %v", out, err)
	}
}

// TestWaitBlocks follows a key from nowhere over busy to configured.
func TestWaitBlocks(t *testing.T) {
	w, c := start(t)
	type answer struct {
		out *apiv1.WaitResponse
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		out, err := c.Wait(context.Background(), &apiv1.WaitRequest{Keys: []string{"interface/web"}})
		answers <- answer{out, err}
	}()
	w.Engine.Await(1)
	for _, line := range []string{
		`{"key":"interface/web","state":"pending"}`,
		`{"key":"interface/web","state":"configured","busy":true}`,
		`{"key":"interface/web","state":"configured","derived":[{"key":"address/web/10.0.0.1/24","state":"pending"}]}`,
	} {
		build(t, w, line)
		if w.Engine.AwaitRead() != 1 {
			t.Fatalf("it does not wait for more after %s", line)
		}
	}
	build(t, w, `{"key":"interface/web","state":"configured","derived":[{"key":"address/web/10.0.0.1/24","state":"configured"}]}`)
	if a := <-answers; a.err != nil || a.out.Outcome != "met" || a.out.Keys[0].State != "configured" {
		t.Errorf("got %v, %v", a.out, a.err)
	}
}

// TestWaitForAllTellsOnce: a derived key comes with its base, and not a second time.
func TestWaitForAllTellsOnce(t *testing.T) {
	w, c := start(t)
	build(t, w, `{"key":"interface/web","state":"configured","derived":[{"key":"address/web/10.0.0.1/24","state":"pending","base":"interface/web"}]}`)
	build(t, w, `{"key":"address/web/10.0.0.1/24","state":"pending","base":"interface/web"}`)
	for _, goal := range []string{"settled", "configured"} {
		out, err := c.Wait(context.Background(), &apiv1.WaitRequest{All: true, For: goal, Timeout: durationpb.New(20 * time.Millisecond)})
		if err != nil || len(out.Keys) != 1 || len(out.Keys[0].Derived) != 1 {
			t.Errorf("for %s: %v, %v", goal, out, err)
		}
	}
}

// TestWaitEndsWithItsClient leaves nothing behind.
func TestWaitEndsWithItsClient(t *testing.T) {
	w, c := start(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := c.Wait(ctx, &apiv1.WaitRequest{Keys: []string{"interface/web"}})
		done <- err
	}()
	w.Engine.Await(1)
	cancel()
	if err := c.Explain(<-done); err == nil || err.Error() != "interrupted" {
		t.Errorf("got %v", err)
	}
	w.Engine.Await(0)
}

// TestStopWithStuckClient: one who asks and never reads does not keep the
// agent from stopping.
func TestStopWithStuckClient(t *testing.T) {
	w := apitest.New()
	w.Engine.Set(scheduler.Status{Key: "interface/web", State: scheduler.Failed, Reason: strings.Repeat("x", 4<<20)})
	after := t.Cleanup
	t.Run("serve", func(t *testing.T) { // the server stops when this ends
		conn, err := net.Dial("unix", apitest.Serve(t, w.Config()))
		if err != nil {
			t.Fatal(err)
		}
		after(func() { conn.Close() })
		fmt.Fprint(conn, "POST /plumb.api.v1.Agent/List HTTP/1.1\r\nHost: agent\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
		if _, err := conn.Read(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestNoValues: what keys hold is left out if it is asked for, of derived keys too, and
// nothing else is.
func TestNoValues(t *testing.T) {
	w, c := start(t)
	build(t, w, `{"key":"interface/web","state":"drifted","reason":"gone","desired":{"mtu":1400},"actual":{"mtu":1500},"metadata":{"index":3},"derived":[{"key":"address/web/10.0.0.1","state":"configured","actual":{"interface":"web"}}]}`)
	list := func(noValues bool) *apiv1.KeyStatus {
		got, err := c.List(t.Context(), &apiv1.ListRequest{Targets: []string{"interface/web"}, NoValues: noValues})
		if err != nil || len(got.Keys) != 1 {
			t.Fatal(got, err)
		}
		return got.Keys[0]
	}
	want := list(false)
	if want.Desired == nil || want.Actual == nil || want.Metadata == nil || len(want.Derived) != 1 || want.Derived[0].Actual == nil {
		t.Fatalf("nothing to leave out: %v", want)
	}
	want.Desired, want.Actual, want.Metadata, want.Derived[0].Actual = nil, nil, nil, nil
	if got := list(true); !proto.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
