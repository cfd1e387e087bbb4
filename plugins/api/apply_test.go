package api_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/client"
	"github.com/plumb-net/plumb/plugins/confirm"
)

func item(key, text string) *apiv1.Item { return &apiv1.Item{Key: key, Text: text} }

func expectStore(t *testing.T, w *apitest.Agent, want string) {
	t.Helper()
	want = strings.ReplaceAll(strings.TrimSpace(want), "\t", "")
	if got := strings.TrimSpace(w.Store.String()); got != want {
		t.Errorf("the store has\n%s\nwant\n%s", got, want)
	}
}

// put writes into the store as somebody else does, with etcdctl.
func put(t *testing.T, w *apitest.Agent, key, value string) {
	t.Helper()
	if _, err := w.Store.Write(context.Background(), []models.Write{{Key: key, Value: []byte(value)}}); err != nil {
		t.Fatal(err)
	}
}

// TestPutRefusesInvalid names the fields also for programs.
func TestPutRefusesInvalid(t *testing.T) {
	w, c := start(t)
	_, err := c.Put(context.Background(), &apiv1.PutRequest{Key: "interface/web", Text: `{"dummy":{},"mtu":3}`})
	e, ok := c.Explain(err).(*client.Error)
	if !ok || e.Code != connect.CodeInvalidArgument || len(e.Invalid) != 1 || e.Invalid[0].Fields[0].Field != "mtu" {
		t.Errorf("got %#v", e)
	}
	expectStore(t, w, "")
}

// TestCrossedWrite: what somebody else writes meanwhile is seen, not lost.
func TestCrossedWrite(t *testing.T) {
	w, c := start(t)
	w.Store.Cross(func() { put(t, w, "config/interface/web", `{"dummy":{},"mtu":1300}`) })
	out, err := c.Put(context.Background(), &apiv1.PutRequest{Key: "interface/web", Text: `{"dummy":{}}`})
	if err != nil || out.Changes[0].Op != "update" {
		t.Errorf("got %v, %v", out, err)
	}
	expectStore(t, w, `config/interface/web = {"dummy":{}}`)
}

// TestPruneKeepsWhatIsNotItsOwn: keys of other sets, of other hands, and keys
// that it gave away.
func TestPruneKeepsWhatIsNotItsOwn(t *testing.T) {
	w, c := start(t)
	ctx := context.Background()
	dummy := `{"dummy":{}}`
	apply := func(set string, prune bool, keys ...string) *apiv1.ApplyResponse {
		t.Helper()
		req := &apiv1.ApplyRequest{Set: set, Prune: prune}
		for _, k := range keys {
			req.Items = append(req.Items, item(k, dummy))
		}
		out, err := c.Apply(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	put(t, w, "config/interface/mine", dummy)
	apply("a", false, "interface/a1", "interface/a2", "interface/both", "interface/gone")
	apply("b", false, "interface/both", "interface/b")
	if _, err := c.Delete(ctx, &apiv1.DeleteRequest{Keys: []string{"interface/gone"}}); err != nil {
		t.Fatal(err)
	}
	put(t, w, "config/interface/gone", dummy) // now by other hands
	out := apply("a", true, "interface/a1")
	if len(out.Notes) != 1 || out.Notes[0] != "interface/both is left: the apply-set b wrote it too" {
		t.Errorf("notes: %q", out.Notes)
	}
	expectStore(t, w, `
		applyset/a = {"keys":["interface/a1"]}
		applyset/b = {"keys":["interface/b","interface/both"]}
		config/interface/a1 = {"dummy":{}}
		config/interface/b = {"dummy":{}}
		config/interface/both = {"dummy":{}}
		config/interface/gone = {"dummy":{}}
		config/interface/mine = {"dummy":{}}`)
	apply("b", true, "interface/a1")
	apply("a", true, "interface/a1")
	expectStore(t, w, `
		applyset/a = {"keys":["interface/a1"]}
		applyset/b = {"keys":["interface/a1"]}
		config/interface/a1 = {"dummy":{}}
		config/interface/gone = {"dummy":{}}
		config/interface/mine = {"dummy":{}}`)
	if _, err := c.Apply(ctx, &apiv1.ApplyRequest{Set: "a", Prune: true}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("all that a set wrote is deleted for want of intent: %v", err)
	}
}

// TestRevertLeavesWhatOthersChanged: only what still is as the apply left it is
// written back.
func TestRevertLeavesWhatOthersChanged(t *testing.T) {
	w, c := start(t)
	put(t, w, "config/interface/a", `{"dummy":{},"mtu":1000}`)
	put(t, w, "config/interface/b", `{"dummy":{},"mtu":1000}`)
	build(t, w, `becomes {"key":"interface/bad","state":"retrying","reason":"no"}`)
	w.Engine.Hold("interface/a")
	done := make(chan *apiv1.ApplyResponse, 1)
	go func() {
		out, err := c.Apply(context.Background(), &apiv1.ApplyRequest{
			Items:           []*apiv1.Item{item("interface/a", `{"dummy":{}}`), item("interface/b", `{"dummy":{}}`), item("interface/bad", `{"dummy":{}}`)},
			RevertOnFailure: true,
		})
		if err != nil {
			t.Error(err)
		}
		done <- out
	}()
	w.Engine.Await(1)
	put(t, w, "config/interface/b", `{"dummy":{},"mtu":2000}`)
	w.Engine.Unhold("interface/a")
	out := <-done
	if out.GetOutcome() != "reverted" || len(out.Notes) != 1 || out.Notes[0] != "interface/b was changed by somebody else meanwhile and stays" {
		t.Errorf("got %v", out)
	}
	expectStore(t, w, `
		config/interface/a = {"dummy":{},"mtu":1000}
		config/interface/b = {"dummy":{},"mtu":2000}`)
}

// TestRevertWhenTheTimeIsUp, and when the client goes away.
func TestRevertWhenTheTimeIsUp(t *testing.T) {
	for _, goesAway := range []bool{false, true} {
		t.Run(fmt.Sprint("client goes away: ", goesAway), func(t *testing.T) {
			w, c := start(t)
			put(t, w, "config/interface/a", `{"dummy":{},"mtu":1000}`)
			w.Engine.Hold("interface/a")
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			req := &apiv1.ApplyRequest{Items: []*apiv1.Item{item("interface/a", `{"dummy":{}}`)}, RevertOnFailure: true}
			if !goesAway {
				req.Timeout = durationpb.New(10 * time.Millisecond)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				out, err := c.Apply(ctx, req)
				if !goesAway && (err != nil || out.Outcome != "reverted") {
					t.Errorf("got %v, %v", out, err)
				}
			}()
			w.Engine.Await(1)
			if goesAway {
				cancel()
			}
			w.Store.Await("config/interface/a", `{"dummy":{},"mtu":1000}`)
			w.Engine.Unhold("interface/a")
			<-done
		})
	}
}

// chunkedHint ends the refusal of what can be written in several transactions.
const chunkedHint = "write fewer at once, or in several transactions with --chunked"

// TestTooMuch: who may cut a change into several transactions is told so, and nobody else.
func TestTooMuch(t *testing.T) {
	w := apitest.New()
	config := w.Config()
	config.Confirms = confirm.Open(t.TempDir(), confirm.Options{})
	c := dial(t, apitest.Serve(t, config))
	var items []*apiv1.Item
	req := &apiv1.DeleteRequest{}
	for i := range 250 {
		key := fmt.Sprintf("interface/i%03d", i)
		items, req.Keys = append(items, item(key, `{"dummy":{}}`)), append(req.Keys, key)
	}
	ctx := context.Background()
	if _, err := c.Apply(ctx, &apiv1.ApplyRequest{Items: items, Wait: true}); err != nil {
		t.Fatal(err)
	}
	w.Store.Limit(128)
	plan, err := c.Plan(ctx, &apiv1.PlanRequest{Delete: req.Keys})
	if err != nil {
		t.Fatal(err)
	}
	for name, apply := range map[string]*apiv1.ApplyRequest{
		"a plan":                    {Plan: plan},
		"a change that may go back": {Delete: req.Keys, Confirm: durationpb.New(time.Minute)},
	} {
		if _, err := c.Apply(ctx, apply); err == nil || !strings.HasSuffix(err.Error(), "write fewer at once") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := config.Confirms.Find(""); err == nil {
		t.Error("nothing was written, and waits to be confirmed")
	}
	if _, err := c.Delete(ctx, req); err == nil || !strings.HasSuffix(err.Error(), chunkedHint) {
		t.Errorf("in one: %v", err)
	}
	req.Chunked, req.Wait = true, true
	if out, err := c.Delete(ctx, req); err != nil || out.Outcome != "configured" || len(out.Keys) != 250 {
		t.Errorf("in chunks: %v %v", out.GetOutcome(), err)
	}
}

// TestChunked writes what one transaction of a small cluster cannot take.
func TestChunked(t *testing.T) {
	w, c := start(t)
	w.Store.Limit(128)
	req := &apiv1.ApplyRequest{Set: "many"}
	for i := range 250 {
		req.Items = append(req.Items, item(fmt.Sprintf("interface/i%03d", i), `{"dummy":{}}`))
	}
	if _, err := c.Apply(context.Background(), req); err == nil || !strings.HasSuffix(err.Error(), chunkedHint) {
		t.Errorf("in one: %v", err)
	}
	req.Chunked, req.Wait = true, true
	out, err := c.Apply(context.Background(), req)
	if err != nil || out.Outcome != "configured" || len(out.Keys) != 250 || out.Revision != 13 {
		t.Errorf("in chunks: %v %v", out.GetRevision(), err)
	}
	req.Items = append(req.Items[:1], item("interface/bad", `{"dummy":{}}`))
	req.Prune, req.RevertOnFailure = true, true
	build(t, w, `becomes {"key":"interface/bad","state":"failed"}`)
	before := w.Store.String()
	if out, err = c.Apply(context.Background(), req); err != nil || out.Outcome != "reverted" {
		t.Errorf("revert: %v %v", out.GetOutcome(), err)
	}
	if w.Store.String() != before {
		t.Error("the store is not as it was before")
	}
}

// TestStoreDown says so, with the code that clients go by.
func TestStoreDown(t *testing.T) {
	w, c := start(t)
	w.Store.Down(true)
	for name, call := range map[string]func() error{
		"put": func() error {
			_, err := c.Put(context.Background(), &apiv1.PutRequest{Key: "interface/a", Text: `{"dummy":{}}`})
			return err
		},
		"kv": func() error { _, err := c.ListKV(context.Background(), &apiv1.ListKVRequest{}); return err },
		"delete": func() error {
			_, err := c.Delete(context.Background(), &apiv1.DeleteRequest{Keys: []string{"interface/a"}})
			return err
		},
	} {
		if err := call(); connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "agentctl status") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.List(context.Background(), &apiv1.ListRequest{}); err != nil {
		t.Errorf("reading needs no store: %v", err)
	}
}

// TestNamesOfSets: they stand as they are wherever they can be read so, and a set is
// found again under the name that it was written with before that.
func TestNamesOfSets(t *testing.T) {
	w, c := start(t)
	put(t, w, "applyset/%2Fetc%2Fold.yaml", `{"keys":["interface/a"]}`)
	for _, set := range []string{"/etc/old.yaml", "/etc/new.yaml", "50%", "a\nb"} {
		if _, err := c.Apply(context.Background(), &apiv1.ApplyRequest{Set: set, Items: []*apiv1.Item{item("interface/a", `{"dummy":{}}`)}}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := c.Apply(context.Background(), &apiv1.ApplyRequest{Set: "a\nb", Prune: true, Items: []*apiv1.Item{item("interface/b", `{"dummy":{}}`)}})
	if err != nil || len(out.Notes) != 1 || !strings.HasSuffix(out.Notes[0], "the apply-set /etc/old.yaml wrote it too") {
		t.Errorf("%v, %v", out, err)
	}
	expectStore(t, w, `
		applyset/%2Fetc%2Fold.yaml = {"keys":["interface/a"]}
		applyset//etc/new.yaml = {"keys":["interface/a"]}
		applyset/50%25 = {"keys":["interface/a"]}
		applyset/a%0Ab = {"keys":["interface/b"]}
		config/interface/a = {"dummy":{}}
		config/interface/b = {"dummy":{}}
	`)
}

// TestChunkedEndsInTheMiddle: the store goes while several transactions are on their way to it.
// It is told how many it has, the set of keys is as it was, and the same apply completes it.
func TestChunkedEndsInTheMiddle(t *testing.T) {
	w, c := start(t)
	req := &apiv1.ApplyRequest{Set: "many", Chunked: true}
	for i := range 1000 {
		req.Items = append(req.Items, item(fmt.Sprintf("interface/i%03d", i), `{"dummy":{}}`))
	}
	var mu sync.Mutex
	writes := 0
	var count func()
	count = func() {
		mu.Lock()
		defer mu.Unlock()
		if writes++; writes > 2 { // of those that go together one is counted
			w.Store.Down(true)
			return
		}
		w.Store.Cross(count)
	}
	w.Store.Cross(count)
	_, err := c.Apply(context.Background(), req)
	var written, of int
	if err == nil {
		t.Fatal("the store is down, and nothing is wrong")
	}
	_, text, _ := strings.Cut(err.Error(), ": ")
	if _, scan := fmt.Sscanf(text, "%d of %d transactions were written", &written, &of); scan != nil || of != 11 {
		t.Fatalf("%v (%v)", err, scan)
	}
	w.Store.Down(false)
	all, err := w.Store.List(context.Background(), "config/")
	if err != nil || len(all) != 100*written {
		t.Errorf("%d keys of %d transactions, %v", len(all), written, err)
	}
	if sets, err := w.Store.List(context.Background(), "applyset/"); err != nil || len(sets) > 0 {
		t.Errorf("%d sets, %v", len(sets), err)
	}
	req.Wait = true
	out, err := c.Apply(context.Background(), req)
	if err != nil || out.Outcome != "configured" || len(out.Keys) != 1000 {
		t.Errorf("once more: %v %v", out.GetOutcome(), err)
	}
	if sets, err := w.Store.List(context.Background(), "applyset/"); err != nil || len(sets) != 1 {
		t.Errorf("%d sets, %v", len(sets), err)
	}
}
