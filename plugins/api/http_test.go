package api_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/apiv1/apiv1connect"
)

// TestPlainJSON asks as curl does. The bodies are the documented ones, byte by byte.
func TestPlainJSON(t *testing.T) {
	w := apitest.New()
	build(t, w, `{"key":"route/r1","state":"pending","origin":"etcd","missing":[{"need":"interface/web","why":"it leaves by it"}],"desired":{"interface":"web","destination":"10.0.0.0/8"},"attempts":2,"next_try":"2026-01-02T12:00:08Z"}`)
	h := plainHTTP(t, apitest.Serve(t, w.Config()), nil)
	for _, c := range []struct {
		call, body string
		status     int
		want       string
	}{
		{"Get", `{"key":"route/r1"}`, 200, `{"key":"route/r1","kind":"route","name":"r1","state":"pending","missing":[{"need":"interface/web","why":"it leaves by it"}],"origin":"etcd","desired":{"destination":"10.0.0.0/8","interface":"web"},"revision":1,"since":"2026-01-02T11:58:30Z","attempts":2,"next_try":"2026-01-02T12:00:08Z"}`},
		{"Get", `{"key":"route/r2"}`, 404, `{"code":"not_found","message":"unknown key route/r2: it is neither in the intent nor on the live host; did you mean route/r1?"}`},
		{"Put", `{"key":"interface/web","value":{"dummy":{},"mtu":1400}}`, 200, `{"outcome":"written","revision":11,"changes":[{"key":"interface/web","op":"create"}]}`},
		{"Put", `{"key":"interface/web","text":"{\"dummy\":{}}","value":{}}`, 400, `{"code":"invalid_argument","message":"interface/web: value and text are given; one is enough"}`},
		{"Plan", `{}`, 200, `{"base":"0000000000000003e3b0c44298fc1c14","steps":[],"pending":[],"request":{}}`},
		{"Apply", `{"items":[{"key":"interface/x","value":{"dummy":{}}}],"dry_run":true}`, 200, `{"outcome":"planned","changes":[{"key":"interface/x","op":"create"}],"plan":{"base":"0000000000000003e3b0c44298fc1c14","steps":[{"n":1,"op":"create","key":"interface/x","reason":"it is wanted and not there","disruption":"none"}],"pending":[],"request":{"items":[{"key":"interface/x","text":"{\"dummy\":{}}"}]}}}`},
		{"Apply", `{"items":[{"key":"interface/x","value":{"dummy":{}}}],"dryrun":true}`, 400, `unknown field \"dryrun\"`},
		{"Wait", `{"keys":["route/r9"],"timeout":"0.01s"}`, 200, `{"outcome":"timed out","keys":[{"key":"route/r9","kind":"route","name":"r9","state":"absent","reason":"not in the intent"}]}`},
		{"Delete", `{}`, 400, `{"code":"invalid_argument","message":"no keys are given"}`},
		{"Version", `{}`, 200, `"label":"host1"`},
		{"Bogus", `{}`, 404, ``},
	} {
		resp, err := h.Post("http://agent/plumb.api.v1.Agent/"+c.call, "application/json", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || !strings.Contains(string(body), c.want) {
			t.Errorf("%s %s\n got %d %s (%v)\nwant %d %s", c.call, c.body, resp.StatusCode, body, err, c.status, c.want)
		}
	}
}

// TestGRPC speaks gRPC over HTTP/2 without TLS on the same socket.
func TestGRPC(t *testing.T) {
	w := apitest.New()
	build(t, w, `{"key":"interface/web","state":"configured"}`)
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	h := plainHTTP(t, apitest.Serve(t, w.Config()), h2c)
	c := apiv1connect.NewAgentClient(h, "http://agent", connect.WithGRPC())
	st, err := c.Get(context.Background(), &apiv1.GetRequest{Key: "interface/web"})
	if err != nil || st.State != "configured" {
		t.Errorf("get: %v, %v", st, err)
	}
	if _, err = c.Get(context.Background(), &apiv1.GetRequest{Key: "interface/none"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("an unknown key: %v", err)
	}
	stream, err := c.Watch(context.Background(), &apiv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if !stream.Receive() || !stream.Msg().InSync || len(stream.Msg().Changes) != 1 {
		t.Errorf("watch: %v, %v", stream.Msg(), stream.Err())
	}
	stream.Close()
}

// TestProbes: alive while the loop answers, ready when all have synced and all
// parts are well, each with its reasons.
func TestProbes(t *testing.T) {
	w, c := start(t)
	expect := func(path string, status int, body string) {
		t.Helper()
		code, text, err := c.Page(context.Background(), path)
		if err != nil || code != status || string(text) != body {
			t.Errorf("%s: got %d %q (%v), want %d %q", path, code, text, err, status, body)
		}
	}
	expect("/livez", 200, "alive\n")
	expect("/readyz", 200, "ready\n")
	build(t, w, "silent pods\noptional pods down the API server does not answer")
	expect("/readyz", 200, "ready\n")
	build(t, w, "silent files\nhealth docker down the socket does not answer\nhealth cni off")
	expect("/livez", 200, "alive\n")
	expect("/readyz", 503, "not ready\nfiles: has not said yet what it wants; until then nothing is deleted\ndocker: down: the socket does not answer\n")
	w.Engine.Kill()
	expect("/livez", 503, "not alive\nscheduler: the loop does not answer: scheduler stopped\n")
	expect("/readyz", 503, "not ready\nscheduler: the loop does not answer: scheduler stopped\n")
}

// TestHangingLoop: a loop that answers nothing is noticed, however often it is asked.
func TestHangingLoop(t *testing.T) {
	w := apitest.New()
	cfg := w.Config()
	release := w.Engine.Hang()
	c := dial(t, apitest.Serve(t, cfg))
	for range 2 {
		code, text, err := c.Page(context.Background(), "/livez")
		if err != nil || code != 503 || !strings.Contains(string(text), "does not answer in time") {
			t.Errorf("got %d %q, %v", code, text, err)
		}
	}
	release()
	if code, text, err := c.Page(context.Background(), "/livez"); err != nil || code != 200 {
		t.Errorf("after the loop goes on: %d %q, %v", code, text, err)
	}
}
