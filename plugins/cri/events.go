package cri

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/plumb-net/plumb/plugins/container"
)

// settle is how long a stream must last without an error to be taken for one
// that stands: engines say nothing before the first event.
const settle = 500 * time.Millisecond

// Events passes on the engine's events until the stream ends or ctx does. An
// engine that offers none is listed every second instead, and what differs from
// the list before is passed on.
func (e *Engine) Events(ctx context.Context, ready func(), hint func(container.Hint)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, err := e.socket.Open(); err != nil {
		return err
	}
	defer e.socket.Close()
	if _, err := e.Version(ctx); err != nil {
		return err
	}
	c, err := e.client()
	if err != nil {
		return err
	}
	err = e.listen(ctx, c, ready, hint)
	if status.Code(err) == codes.Unimplemented {
		return e.poll(ctx, ready, hint)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the CRI engine ended the stream of events")
	}
	return e.socket.Explain(ctx, err)
}

// received is what a stream gave.
type received struct {
	event *runtime.ContainerEventResponse
	err   error
}

// listen reads the stream of events.
func (e *Engine) listen(ctx context.Context, c runtime.RuntimeServiceClient, ready func(), hint func(container.Hint)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.GetContainerEvents(ctx, &runtime.GetEventsRequest{})
	if err != nil {
		return err
	}
	got := make(chan received)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for r := (received{}); r.err == nil; {
			r.event, r.err = stream.Recv()
			select {
			case got <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() { cancel(); <-done }()
	timer := time.NewTimer(settle)
	defer timer.Stop()
	stands := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case r := <-got:
			if r.err != nil {
				return r.err
			}
			hint(hintOf(r.event))
		}
		if !stands {
			stands = true
			ready()
		}
	}
}

// hintOf is what an event tells.
func hintOf(ev *runtime.ContainerEventResponse) container.Hint {
	h := container.Hint{ID: ev.ContainerId, At: at(ev.CreatedAt)}
	switch ev.ContainerEventType {
	case runtime.ContainerEventType_CONTAINER_CREATED_EVENT:
		h.Says = container.Created
	case runtime.ContainerEventType_CONTAINER_STARTED_EVENT:
		h.Says = container.Started
	case runtime.ContainerEventType_CONTAINER_STOPPED_EVENT:
		h.Says, h.Exit = container.Died, container.UnknownExit
	case runtime.ContainerEventType_CONTAINER_DELETED_EVENT:
		h.Says = container.Removed
	}
	for _, s := range ev.ContainersStatuses {
		if s.Id != ev.ContainerId {
			continue
		}
		h.Image = s.GetImage().GetImage()
		if h.Says == container.Died && s.State == runtime.ContainerState_CONTAINER_EXITED {
			h.Exit = int(s.ExitCode)
		}
	}
	return h
}

// at is a time of CRI, in nanoseconds.
func at(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
