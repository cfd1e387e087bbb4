package containerd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	told "github.com/containerd/containerd/api/events"
	events "github.com/containerd/containerd/api/services/events/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/plumb-net/plumb/plugins/container"
)

// Events reads the events of all namespaces in their order until the stream
// ends or ctx does. Between the reads nothing is done but to remember and to
// hand on an id: containerd keeps without bound what a reader does not take.
//
// containerd does not say when a subscription stands. So an event of our own
// is published, again and again, until the stream brings it: what happens
// after that is not missed.
func (e *Engine) Events(ctx context.Context, ready func(), hint func(container.Hint)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conn, err := e.socket.Open()
	if err != nil {
		return err
	}
	defer e.socket.Close()
	mark := "/plumb/" + rand.Text()
	client := events.NewEventsClient(conn)
	stream, err := client.Subscribe(ctx, &events.SubscribeRequest{
		Filters: []string{`topic~="^/(tasks|containers)/"`, `topic=="` + mark + `"`},
	})
	if err != nil {
		return e.socket.Explain(ctx, err)
	}
	heard := make(chan struct{})
	marked := make(chan struct{})
	go func() {
		defer close(marked)
		if err := publish(ctx, client, mark, heard); err != nil {
			cancel(fmt.Errorf("no event can be published: %w", e.socket.Explain(ctx, err)))
		}
	}()
	defer func() { cancel(nil); <-marked }()
	for stands := false; ; {
		ev, err := stream.Recv()
		switch {
		case err != nil:
			return e.streamError(ctx, err)
		case ev.Topic != mark:
			e.hear(ev, hint)
		case !stands:
			stands = true
			close(heard)
			ready()
		}
	}
}

// publish sends the mark until it was heard.
func publish(ctx context.Context, client events.EventsClient, mark string, heard <-chan struct{}) error {
	empty, err := anypb.New(&told.NamespaceUpdate{})
	if err != nil {
		return err
	}
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		_, err := client.Publish(within(ctx, "plumb"), &events.PublishRequest{Topic: mark, Event: empty})
		if err != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-heard:
			timer.Stop()
			return nil
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// streamError says why a stream ended.
func (e *Engine) streamError(ctx context.Context, err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("containerd ended the stream of events")
	}
	return e.socket.Explain(ctx, err)
}

// hear remembers what an event tells and hands it on. Of exec'd processes,
// which come and go within a container, nothing is handed on.
func (e *Engine) hear(ev *types.Envelope, hint func(container.Hint)) {
	if e.skip[ev.Namespace] || strings.HasPrefix(ev.Topic, "/tasks/exec-") {
		return
	}
	message, err := ev.Event.UnmarshalNew()
	if err != nil {
		return // of a containerd to come: the next list will tell
	}
	id := subject(message)
	if id == "" {
		return
	}
	h := container.Hint{ID: join(ev.Namespace, id), At: timeOf(ev.Timestamp)}
	switch m := message.(type) {
	case *told.ContainerCreate:
		h.Says, h.Name, h.Image = container.Created, m.ID, m.Image
	case *told.ContainerDelete:
		h.Says = container.Removed
		e.lives.forget(h.ID)
	case *told.TaskCreate:
		e.lives.created(h.ID, m.Pid, h.At)
	case *told.TaskStart:
		h.Says = container.Started
		h.At = e.lives.started(h.ID, m.Pid, h.At)
	case *told.TaskExit:
		if m.ID != m.ContainerID {
			return
		}
		h.Says, h.Exit = container.Died, int(m.ExitStatus)
		if m.ExitedAt.IsValid() {
			h.At = timeOf(m.ExitedAt)
		}
		h.At = e.lives.ended(h.ID, m.Pid, end{code: int(m.ExitStatus), at: h.At})
	case *told.TaskOOM:
		h.Says = container.OOM
	}
	hint(h)
}

// subject is the id of the container that an event is about, "" if there is none.
func subject(message proto.Message) string {
	switch m := message.(type) {
	case interface{ GetContainerID() string }: // of its task
		return m.GetContainerID()
	case interface{ GetID() string }:
		return m.GetID()
	}
	return ""
}

func timeOf(t *timestamppb.Timestamp) time.Time {
	if !t.IsValid() || t.AsTime().Unix() <= 0 {
		return time.Time{}
	}
	return t.AsTime()
}
