package dockertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/container/daemontest"
)

// Churn moves the containers of an engine at random, with several workers.
// What it does may fail: another worker was quicker, or the engine is away.
type Churn struct {
	e    *Engine
	http *http.Client
	most int
	mu   sync.Mutex
	ids  []string
	made int
	ops  int
}

// Churn makes a Churn of at most so many containers at once, for a test.
func (e *Engine) Churn(t testing.TB, most int) *Churn {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", e.Socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &Churn{e: e, most: most, http: &http.Client{Transport: transport}}
}

// Ops is how many things were done, or tried.
func (c *Churn) Ops() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ops
}

// Run churns with some workers until ctx ends.
func (c *Churn) Run(ctx context.Context, workers int) {
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 7))
			for ctx.Err() == nil {
				c.act(ctx, r)
				pause(ctx, time.Duration(r.IntN(200))*time.Millisecond)
			}
		})
	}
	all.Wait()
}

var commandLines = [][]string{{"sleep", "100000"}, {"sleep", "100000"}, {"sleep", "0.3"}, {"true"}, {"sh", "-c", "exit 7"}}

// create makes a container, unless there are enough.
func (c *Churn) create(ctx context.Context, r *rand.Rand) (id string) {
	c.mu.Lock()
	c.ops++
	if len(c.ids) >= c.most || len(c.ids) > 3 && r.IntN(3) > 0 {
		c.mu.Unlock()
		return ""
	}
	c.made++
	name := fmt.Sprint("churn", c.made)
	c.mu.Unlock()
	host := map[string]any{"NetworkMode": "none", "AutoRemove": r.IntN(5) == 0}
	if host["AutoRemove"] == false && r.IntN(4) == 0 {
		host["RestartPolicy"] = map[string]any{"Name": "on-failure", "MaximumRetryCount": 2}
	}
	var made struct{ ID string }
	_ = c.Call(ctx, "POST", "containers/create?name="+name, map[string]any{
		"Image": Image, "Cmd": commandLines[r.IntN(len(commandLines))], "StopSignal": "KILL",
		"Env": []string{fmt.Sprintf("MICROSERVICE_LABEL=s%d", r.IntN(4))}, "HostConfig": host,
	}, &made)
	if made.ID != "" {
		c.mu.Lock()
		c.ids = append(c.ids, made.ID)
		c.mu.Unlock()
	}
	return made.ID
}

// act does one thing to one container.
func (c *Churn) act(ctx context.Context, r *rand.Rand) {
	if id := c.create(ctx, r); id != "" {
		_ = c.do(ctx, id, "start")
		return
	}
	id := c.pick(r)
	if id == "" {
		return
	}
	switch r.IntN(9) {
	case 0:
		_ = c.do(ctx, id, "kill")
	case 1:
		_ = c.do(ctx, id, "stop?t=0")
	case 2, 3:
		_ = c.do(ctx, id, "start")
	case 4:
		_ = c.do(ctx, id, "restart?t=0")
	case 5:
		_ = c.do(ctx, id, fmt.Sprintf("rename?name=name%d", r.IntN(10)))
	case 6:
		if c.do(ctx, id, "pause") == nil {
			pause(ctx, 50*time.Millisecond)
			_ = c.do(context.WithoutCancel(ctx), id, "unpause")
		}
	case 7:
		c.remove(ctx, id)
	case 8:
		var x struct{ ID string }
		if c.Call(ctx, "POST", "containers/"+id+"/exec", map[string]any{"Cmd": []string{"true"}}, &x) == nil {
			_ = c.Call(ctx, "POST", "exec/"+x.ID+"/start", map[string]any{"Detach": true}, nil)
		}
	}
}

func (c *Churn) pick(r *rand.Rand) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ids) == 0 {
		return ""
	}
	return c.ids[r.IntN(len(c.ids))]
}

func (c *Churn) do(ctx context.Context, id, what string) error {
	return c.Call(ctx, "POST", "containers/"+id+"/"+what, nil, nil)
}

func (c *Churn) remove(ctx context.Context, id string) {
	err := c.Call(ctx, "DELETE", "containers/"+id+"?force=1", nil, nil)
	if err != nil && !strings.Contains(err.Error(), "No such container") {
		return // it is still there
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids = slices.DeleteFunc(c.ids, func(o string) bool { return o == id })
}

// Call makes a call of the engine's API. What it sends and gets is JSON; nil is
// nothing.
func (c *Churn) Call(ctx context.Context, method, path string, send, get any) error {
	var body io.Reader
	if send != nil {
		data, err := json.Marshal(send)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	u, err := url.Parse("http://docker/" + path)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= 300:
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, strings.TrimSpace(string(answer)))
	case get != nil:
		return json.Unmarshal(answer, get)
	}
	return nil
}

// Settle waits until nothing moves by itself any more. An engine that was killed at
// the wrong moment leaves a container waiting for its restart for ever.
func (c *Churn) Settle(t testing.TB) {
	t.Helper()
	last, same := "?", 0
	for end := time.Now().Add(daemontest.Patience); time.Now().Before(end); pause(t.Context(), time.Second) {
		now, err := c.e.Try("ps", "--all", "--no-trunc", "--format", "{{.ID}} {{.State}} {{.Names}}")
		if same++; err != nil || now != last {
			last, same = now, 0
		}
		if same > 20 || same > 1 && !strings.Contains(now, "restarting") {
			return
		}
	}
	t.Fatalf("containers still move:\n%s", last)
}
