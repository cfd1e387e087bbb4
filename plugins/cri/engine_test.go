package cri

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/plumb-net/plumb/plugins/container"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// crio is an engine in memory that calls itself CRI-O.
type crio struct {
	runtime.UnimplementedRuntimeServiceServer
	name   string
	events func(stream grpc.ServerStreamingServer[runtime.ContainerEventResponse]) error
	// status are the answers for containers, pods those for sandboxes, by id.
	status map[string]*runtime.ContainerStatusResponse
	pods   map[string]*runtime.PodSandboxStatusResponse

	mu     sync.Mutex
	listed []*runtime.Container
}

func (c *crio) ListPodSandbox(context.Context, *runtime.ListPodSandboxRequest) (*runtime.ListPodSandboxResponse, error) {
	return &runtime.ListPodSandboxResponse{}, nil
}

func (c *crio) ListContainers(context.Context, *runtime.ListContainersRequest) (*runtime.ListContainersResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &runtime.ListContainersResponse{Containers: c.listed}, nil
}

// lists has the engine list containers in a state.
func (c *crio) lists(state runtime.ContainerState, ids ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = nil
	for _, id := range ids {
		c.listed = append(c.listed, &runtime.Container{Id: id, State: state})
	}
}

func (c *crio) Version(context.Context, *runtime.VersionRequest) (*runtime.VersionResponse, error) {
	return &runtime.VersionResponse{RuntimeName: c.name, RuntimeVersion: "1.31.0"}, nil
}

func (c *crio) GetContainerEvents(_ *runtime.GetEventsRequest, stream grpc.ServerStreamingServer[runtime.ContainerEventResponse]) error {
	if c.events == nil {
		return status.Error(codes.Unimplemented, "no events")
	}
	return c.events(stream)
}

func (c *crio) ContainerStatus(_ context.Context, r *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error) {
	if s := c.status[r.ContainerId]; s != nil {
		return s, nil
	}
	return nil, status.Error(codes.NotFound, "no such container")
}

func (c *crio) PodSandboxStatus(_ context.Context, r *runtime.PodSandboxStatusRequest) (*runtime.PodSandboxStatusResponse, error) {
	if s := c.pods[r.PodSandboxId]; s != nil {
		return s, nil
	}
	return nil, status.Error(codes.NotFound, "no such sandbox")
}

// serve starts the engine and returns its socket.
func (c *crio) serve(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "crio.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtime.RegisterRuntimeServiceServer(server, c)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return path
}

func engine(t *testing.T, o Options) *Engine {
	t.Helper()
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestEvents: ready comes before the first hint is acted on, hints carry what
// the events tell, and the end of the stream is an error.
func TestEvents(t *testing.T) {
	sent := []*runtime.ContainerEventResponse{
		{ContainerId: "a", ContainerEventType: runtime.ContainerEventType_CONTAINER_CREATED_EVENT, CreatedAt: 1e18},
		{ContainerId: "a", ContainerEventType: runtime.ContainerEventType_CONTAINER_STARTED_EVENT, CreatedAt: 2e18},
		{ContainerId: "a", ContainerEventType: runtime.ContainerEventType_CONTAINER_STOPPED_EVENT, CreatedAt: 3e18,
			ContainersStatuses: []*runtime.ContainerStatus{{Id: "b", ExitCode: 9}, {Id: "a", State: runtime.ContainerState_CONTAINER_EXITED, ExitCode: 7}}},
		{ContainerId: "pod", ContainerEventType: runtime.ContainerEventType_CONTAINER_STOPPED_EVENT},
		{ContainerId: "a", ContainerEventType: runtime.ContainerEventType_CONTAINER_DELETED_EVENT},
	}
	c := &crio{name: "cri-o", events: func(stream grpc.ServerStreamingServer[runtime.ContainerEventResponse]) error {
		for _, ev := range sent {
			if err := stream.Send(ev); err != nil {
				return err
			}
		}
		return nil
	}}
	e := engine(t, Options{Socket: c.serve(t)})
	ready := 0
	var got []container.Hint
	err := e.Events(t.Context(), func() { ready++ }, func(h container.Hint) { got = append(got, h) })
	want := []container.Hint{
		{ID: "a", Says: container.Created, At: time.Unix(0, 1e18)},
		{ID: "a", Says: container.Started, At: time.Unix(0, 2e18)},
		{ID: "a", Says: container.Died, At: time.Unix(0, 3e18), Exit: 7},
		{ID: "pod", Says: container.Died, Exit: container.UnknownExit},
		{ID: "a", Says: container.Removed},
	}
	if !slices.Equal(got, want) || ready != 1 {
		t.Errorf("ready %d times, hints\n%+v\nwant\n%+v", ready, got, want)
	}
	if err == nil || !strings.Contains(err.Error(), "ended the stream") {
		t.Errorf("error %v", err)
	}
}

// TestQuietStream: streams stand although nothing happens, and end with their
// context.
func TestQuietStream(t *testing.T) {
	c := &crio{name: "cri-o", events: func(stream grpc.ServerStreamingServer[runtime.ContainerEventResponse]) error {
		<-stream.Context().Done()
		return nil
	}}
	path := c.serve(t)
	var streams sync.WaitGroup
	for range 16 {
		streams.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			e, err := New(Options{Socket: path})
			if err == nil {
				err = e.Events(ctx, cancel, func(container.Hint) {})
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
	}
	streams.Wait()
}

// TestNoEvents: an engine that offers no events is listed instead. What differs
// from the list before is told, of the first one nothing.
func TestNoEvents(t *testing.T) {
	c := &crio{name: "cri-o"}
	c.lists(runtime.ContainerState_CONTAINER_RUNNING, "a", "b")
	e := engine(t, Options{Socket: c.serve(t)})
	ctx, cancel := context.WithCancel(t.Context())
	stands, hints, done := make(chan struct{}), make(chan string, 10), make(chan error, 1)
	go func() {
		done <- e.Events(ctx, func() { close(stands) }, func(h container.Hint) { hints <- h.ID })
	}()
	defer func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}()
	hear := func(want string) {
		t.Helper()
		select {
		case id := <-hints:
			if id != want {
				t.Errorf("told was %s, want %s", id, want)
			}
		case err := <-done:
			done <- err
			t.Fatalf("the stream ended: %v", err)
		}
	}
	select {
	case <-stands:
	case err := <-done:
		done <- err
		t.Fatalf("the stream never stood: %v", err)
	}
	c.lists(runtime.ContainerState_CONTAINER_RUNNING, "a", "b", "new")
	hear("new")
	c.lists(runtime.ContainerState_CONTAINER_RUNNING, "a", "new")
	hear("b")
	c.lists(runtime.ContainerState_CONTAINER_EXITED, "a")
	for range 2 {
		<-hints // of a, which has ended, and of new, which is gone
	}
}

// TestRefused: an engine that is tracked by a runtime of its own is not there.
func TestRefused(t *testing.T) {
	path := (&crio{name: "containerd"}).serve(t)
	e := engine(t, Options{Socket: path, Refuse: []string{"docker", "containerd"}})
	err := e.Events(t.Context(), func() { t.Error("ready") }, func(container.Hint) {})
	if !errors.Is(err, container.ErrAbsent) || !strings.Contains(err.Error(), "is containerd, which is tracked by itself") {
		t.Errorf("error %v", err)
	}
}

// TestWhichSocket: a socket that is missing means "no engine" only if nobody
// said that there is one.
func TestWhichSocket(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "none.sock")
	said := engine(t, Options{Socket: "unix://" + nowhere})
	if err := said.Events(t.Context(), func() {}, func(container.Hint) {}); err == nil || errors.Is(err, container.ErrAbsent) {
		t.Errorf("said: %v", err)
	}
	if _, err := said.List(t.Context()); err == nil || errors.Is(err, container.ErrAbsent) {
		t.Errorf("said: %v", err)
	}
	if _, err := New(Options{Socket: "crio.sock"}); err == nil {
		t.Error("a path that does not begin with / was taken")
	}
}

// TestInspect: what an engine tells becomes a container; what it keeps back is
// an error and not a container without a process.
func TestInspect(t *testing.T) {
	details := map[string]string{"info": `{"pid":42,"sandboxID":"pod","runtimeSpec":{"process":{"env":["A=b"]}}}`}
	answer := func(id string, state runtime.ContainerState, info map[string]string) *runtime.ContainerStatusResponse {
		return &runtime.ContainerStatusResponse{Info: info, Status: &runtime.ContainerStatus{
			Id: id, Metadata: &runtime.ContainerMetadata{Name: id}, State: state, CreatedAt: 1, StartedAt: 2, FinishedAt: 3,
			ExitCode: 137, Reason: "OOMKilled", Message: "out of memory", Image: &runtime.ImageSpec{Image: "img"},
		}}
	}
	c := &crio{
		name: "cri-o",
		events: func(stream grpc.ServerStreamingServer[runtime.ContainerEventResponse]) error {
			<-stream.Context().Done()
			return nil
		},
		status: map[string]*runtime.ContainerStatusResponse{
			"runs":    answer("runs", runtime.ContainerState_CONTAINER_RUNNING, details),
			"made":    answer("made", runtime.ContainerState_CONTAINER_CREATED, details),
			"over":    answer("over", runtime.ContainerState_CONTAINER_EXITED, details),
			"unknown": answer("unknown", runtime.ContainerState_CONTAINER_UNKNOWN, details),
			"mute":    answer("mute", runtime.ContainerState_CONTAINER_RUNNING, nil),
			"no pid":  answer("no pid", runtime.ContainerState_CONTAINER_RUNNING, map[string]string{"info": "{}"}),
		},
		pods: map[string]*runtime.PodSandboxStatusResponse{"pod": {Info: details, Status: &runtime.PodSandboxStatus{
			Id: "pod", Metadata: &runtime.PodSandboxMetadata{Namespace: "default", Name: "web"},
			Network: &runtime.PodSandboxNetworkStatus{Ip: "10.0.0.2", AdditionalIps: []*runtime.PodIP{{Ip: "fd00::2"}}},
		}}},
	}
	e := engine(t, Options{Socket: c.serve(t)})
	ctx, cancel := context.WithCancel(t.Context())
	stands, done := make(chan struct{}), make(chan error)
	go func() { done <- e.Events(ctx, func() { close(stands) }, func(container.Hint) {}) }()
	defer func() {
		cancel()
		<-done
	}()
	<-stands
	for _, tc := range []struct{ id, want string }{
		{"runs", "default/web/runs running 42 exit 0  joins pod [A=b] []"},
		{"made", "default/web/made created 0 exit 0  joins pod [A=b] []"},
		{"over", "default/web/over exited 0 exit 137 out of memory joins pod [A=b] []"},
		{"pod", "default/web running 42 exit 0  joins  [] [10.0.0.2/32 fd00::2/128]"},
		{"unknown", "error: the engine does not know the state of the container"},
		{"mute", "error: the engine tells no details"},
		{"no pid", "error: the engine does not tell the id of the process"},
		{"gone", "error: no such container"},
	} {
		d, err := e.Inspect(ctx, tc.id)
		got := text(d)
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %s\nwant %s", tc.id, got, tc.want)
		}
	}
	if _, err := e.Inspect(ctx, "gone"); !errors.Is(err, container.ErrNotFound) {
		t.Error(err)
	}
}
