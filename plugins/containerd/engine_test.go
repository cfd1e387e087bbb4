package containerd

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	told "github.com/containerd/containerd/api/events"
	events "github.com/containerd/containerd/api/services/events/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/container/socket"
)

// bus is a containerd of which there are only the events. It is slow to take
// up a subscription, and says nothing about it.
type bus struct {
	events.UnimplementedEventsServer
	// before is waited for before a subscription stands.
	before chan struct{}
	// after is what is sent once it does.
	after []*types.Envelope

	mu      sync.Mutex
	stands  bool
	subs    []chan *types.Envelope
	refused int // publications that nobody heard
}

func (b *bus) Subscribe(_ *events.SubscribeRequest, stream events.Events_SubscribeServer) error {
	select {
	case <-b.before:
	case <-stream.Context().Done():
		return nil
	}
	sub := make(chan *types.Envelope, 100)
	b.mu.Lock()
	b.stands = true
	b.subs = append(b.subs, sub)
	b.mu.Unlock()
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case ev := <-sub:
			if ev == nil {
				return nil // the end of the stream
			}
			if err := stream.Send(ev); err != nil {
				return err
			}
		}
	}
}

func (b *bus) Publish(_ context.Context, r *events.PublishRequest) (*emptypb.Empty, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stands {
		if b.refused++; b.refused == 3 {
			close(b.before)
		}
	}
	for _, sub := range b.subs {
		sub <- &types.Envelope{Topic: r.Topic, Namespace: "plumb", Event: r.Event}
		for _, ev := range b.after {
			sub <- ev
		}
		sub <- nil
	}
	return &emptypb.Empty{}, nil
}

func (b *bus) standing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stands
}

func (b *bus) serve(t *testing.T) *Engine {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	events.RegisterEventsServer(server, b)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return newEngine(t, Options{Socket: path, Skip: []string{"moby"}})
}

func newEngine(t *testing.T, o Options) *Engine {
	t.Helper()
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// envelope is an event at second n.
func envelope(t *testing.T, n int64, namespace, topic string, m proto.Message) *types.Envelope {
	t.Helper()
	content, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	// containerd names types without the host.
	content.TypeUrl = strings.TrimPrefix(content.TypeUrl, "type.googleapis.com/")
	return &types.Envelope{Timestamp: &timestamppb.Timestamp{Seconds: n}, Namespace: namespace, Topic: topic, Event: content}
}

// TestSubscription: ready comes when the subscription stands, however long that
// takes, and not before. Then events come as they are sent, of what can change
// a container, of all namespaces but those that are skipped.
func TestSubscription(t *testing.T) {
	strange := envelope(t, 9, "k8s.io", "/tasks/new", &emptypb.Empty{})
	strange.Event.TypeUrl = "containerd.events.NotYetInvented"
	b := &bus{before: make(chan struct{}), after: []*types.Envelope{
		envelope(t, 1, "k8s.io", "/containers/create", &told.ContainerCreate{ID: "a", Image: "img"}),
		envelope(t, 2, "k8s.io", "/tasks/start", &told.TaskStart{ContainerID: "a", Pid: 1 << 30}),
		envelope(t, 3, "k8s.io", "/tasks/exec-added", &told.TaskExecAdded{ContainerID: "a", ExecID: "x"}),
		envelope(t, 4, "k8s.io", "/tasks/exit", &told.TaskExit{ContainerID: "a", ID: "x", ExitStatus: 1}),
		envelope(t, 5, "moby", "/tasks/oom", &told.TaskOOM{ContainerID: "d"}),
		envelope(t, 6, "red", "/tasks/oom", &told.TaskOOM{ContainerID: "b"}),
		envelope(t, 7, "k8s.io", "/tasks/exit", &told.TaskExit{ContainerID: "a", ID: "a", Pid: 1 << 30, ExitStatus: 7, ExitedAt: &timestamppb.Timestamp{Seconds: 8}}),
		strange,
		envelope(t, 10, "k8s.io", "/tasks/paused", &told.TaskPaused{ContainerID: "a"}),
		envelope(t, 11, "k8s.io", "/containers/delete", &told.ContainerDelete{ID: "a"}),
	}}
	e := b.serve(t)
	ready := 0
	var got []container.Hint
	err := e.Events(t.Context(), func() {
		if ready++; !b.standing() {
			t.Error("ready, but the subscription does not stand")
		}
	}, func(h container.Hint) { got = append(got, h) })
	second := func(n int64) time.Time { return time.Unix(n, 0).UTC() }
	want := []container.Hint{
		{ID: "k8s.io:a", Says: container.Created, At: second(1), Name: "a", Image: "img"},
		{ID: "k8s.io:a", Says: container.Started, At: second(2)},
		{ID: "red:b", Says: container.OOM, At: second(6)},
		{ID: "k8s.io:a", Says: container.Died, At: second(8), Exit: 7},
		{ID: "k8s.io:a", At: second(10)},
		{ID: "k8s.io:a", Says: container.Removed, At: second(11)},
	}
	if !slices.Equal(got, want) || ready != 1 {
		t.Errorf("ready %d times, heard\n%+v\nwant\n%+v", ready, got, want)
	}
	if err == nil || !strings.Contains(err.Error(), "ended the stream") {
		t.Errorf("error %v", err)
	}
}

// TestDeadline: a containerd that accepts calls and says nothing holds up no
// caller beyond its deadline.
func TestDeadline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	e := newEngine(t, Options{Socket: path})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := e.Events(ctx, func() { t.Error("ready") }, func(container.Hint) {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("events: %v", err)
	}
}

// TestWhichSocket: a socket that is missing means "no containerd here" only if
// nobody said that there is one.
func TestWhichSocket(t *testing.T) {
	said := newEngine(t, Options{Socket: "unix://" + filepath.Join(t.TempDir(), "none.sock")})
	if err := said.Events(t.Context(), func() {}, func(container.Hint) {}); err == nil || errors.Is(err, container.ErrAbsent) {
		t.Errorf("said: %v", err)
	}
	if _, err := said.List(t.Context()); err == nil || errors.Is(err, container.ErrAbsent) {
		t.Errorf("said: %v", err)
	}
	auto := newEngine(t, Options{})
	_, err := auto.List(t.Context())
	if _, there := os.Stat(DefaultSocket); auto.socket.Path() != DefaultSocket || errors.Is(err, container.ErrAbsent) != (there != nil) {
		t.Errorf("by default: %s, %v", auto.socket.Path(), err)
	}
	if auto.socket, err = socket.New("containerd", "", filepath.Join(t.TempDir(), "none.sock")); err != nil {
		t.Fatal(err)
	}
	if _, err := auto.Inspect(t.Context(), "k8s.io:a"); !errors.Is(err, container.ErrAbsent) {
		t.Errorf("by default: %v", err)
	}
	if err := auto.Events(t.Context(), func() {}, func(container.Hint) {}); !errors.Is(err, container.ErrAbsent) {
		t.Errorf("by default: %v", err)
	}
	if _, err := New(Options{Socket: "c.sock"}); err == nil {
		t.Error("a path that does not begin with / was taken")
	}
}

// TestLives: what comes late, twice or not at all does not mix up two lives.
func TestLives(t *testing.T) {
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	const gone, other = 1 << 30, 1<<30 + 1 // no processes
	var ls lives
	ls.created("c", gone, at(1))
	if _, lived := ls.of("c"); lived {
		t.Error("it lived before it was started")
	}
	if began := ls.started("c", gone, at(5)); !began.Equal(at(1)) {
		t.Errorf("it began at %v, which is not when it was made", began)
	}
	if ended := ls.ended("c", gone, end{at: at(0)}); !ended.Equal(at(1)) {
		t.Errorf("it ended at %v, before it began", ended)
	}
	ls.forget("c")
	ls.started("c", gone, at(1))
	ls.ended("c", gone, end{code: 3, at: at(2)})
	ls.ended("c", gone, end{code: 9, at: at(3)}) // once more, from an inspect
	if l, _ := ls.of("c"); l.end.code != 3 || !l.startedAt().Equal(at(1)) {
		t.Errorf("the first end counts: %+v", l)
	}
	ls.seen("c", gone) // an inspect that comes late
	if l, _ := ls.of("c"); !l.over {
		t.Errorf("a late inspect brought it back: %+v", l)
	}
	ls.started("c", other, at(4))
	ls.seen("c", gone)
	if l, _ := ls.of("c"); l.pid != other || l.over {
		t.Errorf("a late inspect brought the former life back: %+v", l)
	}
	ls.ended("c", gone, end{code: 3, at: at(2)})
	if l, _ := ls.of("c"); l.pid != other || l.over {
		t.Errorf("the end of the former life, told late, ended this one: %+v", l)
	}
	ls.keepOnly([]container.Summary{{ID: "c"}}, time.Now())
	if _, lived := ls.of("c"); !lived {
		t.Error("a life was forgotten whose container is there")
	}
	ls.keepOnly(nil, at(0)) // a list from before
	if _, lived := ls.of("c"); !lived {
		t.Error("a list from before made it forgotten")
	}
	ls.keepOnly(nil, time.Now())
	if _, lived := ls.of("c"); lived || len(ls.all) != 0 {
		t.Error("a life is remembered whose container is gone")
	}
}
