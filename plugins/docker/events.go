package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/plumb-net/plumb/plugins/container"
)

// subscribeTimeout bounds the wait for the engine to accept a subscription.
const subscribeTimeout = 10 * time.Second

// event is what is read of an event of the engine.
type event struct {
	Type     string
	Action   string
	TimeNano int64 `json:"timeNano"`
	Actor    struct {
		ID         string
		Attributes map[string]string
	}
}

// Events reads the engine's events in their order until the stream ends or ctx
// does. The engine answers once the subscription stands, so what happens after
// ready is not missed. Between the reads nothing is done but to hand on an id:
// an engine whose events are not taken slows down for everybody.
func (e *Engine) Events(ctx context.Context, ready func(), hint func(container.Hint)) error {
	defer e.forget()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(subscribeTimeout, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	body, err := e.subscribe(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if !timer.Stop() {
		return fmt.Errorf("docker at %s gave no answer: %w", e.endpoint, context.Cause(ctx))
	}
	ready()
	stream := json.NewDecoder(body)
	for {
		var ev event
		if err := stream.Decode(&ev); err != nil {
			return streamError(ctx, err)
		}
		if h := ev.hint(); h.ID != "" {
			hint(h)
		}
	}
}

// streamError says why a stream ended.
func streamError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("docker ended the stream of events")
	}
	return fmt.Errorf("docker's stream of events: %w", err)
}

// subscribe asks for the stream of events.
func (e *Engine) subscribe(ctx context.Context) (io.ReadCloser, error) {
	c, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	api := e.api
	e.mu.Unlock()
	query := url.Values{"filters": {`{"type":["container","network"]}`}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base()+"/v"+api+"/events?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.HTTPClient.Do(req)
	if err != nil {
		return nil, e.explain(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		_ = resp.Body.Close()
		return nil, fmt.Errorf("docker at %s refuses its events: %s: %s", e.endpoint, resp.Status, strings.TrimSpace(string(text)))
	}
	return resp.Body, nil
}

// base is the engine's URL for HTTP. The host of a socket is never looked up.
func (e *Engine) base() string {
	if strings.HasPrefix(e.endpoint, "unix:") {
		return "http://docker"
	}
	scheme := "http"
	if e.plain.TLSConfig != nil {
		scheme = "https"
	}
	_, rest, _ := strings.Cut(e.endpoint, "://")
	return scheme + "://" + strings.TrimSuffix(rest, "/")
}

// harmless are actions after which a container is as it was. Others, also
// those of engines to come, call for a look.
var harmless = map[string]bool{
	"exec_create": true, "exec_start": true, "exec_die": true, "exec_detach": true,
	"attach": true, "detach": true, "resize": true, "top": true, "copy": true, "export": true,
	"kill": true, "commit": true, "archive-path": true, "extract-to-dir": true, "health_status": true,
}

// evidence is what actions tell of the life of a container. A stop, a kill and
// a restart tell nothing: without a die nothing has ended.
var evidence = map[string]container.EventType{
	"create": container.Created, "start": container.Started, "die": container.Died,
	"oom": container.OOM, "destroy": container.Removed,
}

// hint is about the container that the event may have changed; without an id if
// there is none. Actions may carry an argument: "exec_start: sh -c true".
func (ev event) hint() container.Hint {
	action, _, _ := strings.Cut(ev.Action, ":")
	switch {
	case ev.Type == "network":
		return container.Hint{ID: ev.Actor.Attributes["container"]}
	case ev.Type != "container" || harmless[action]:
		return container.Hint{}
	}
	h := container.Hint{ID: ev.Actor.ID, Says: evidence[action]}
	if h.Says == "" || ev.TimeNano == 0 {
		return h
	}
	h.At = time.Unix(0, ev.TimeNano)
	h.Name, h.Image = ev.Actor.Attributes["name"], ev.Actor.Attributes["image"]
	h.Exit = container.UnknownExit
	if code, err := strconv.Atoi(ev.Actor.Attributes["exitCode"]); err == nil {
		h.Exit = code
	}
	return h
}
