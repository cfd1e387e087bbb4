package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	versions "github.com/containerd/containerd/api/services/version/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/plumb-net/plumb/plugins/container"
)

// Off, in place of a socket, says that containerd is not to be used.
const Off = "off"

// DefaultSocket is where containerd is looked for if nobody says where it is.
const DefaultSocket = "/run/containerd/containerd.sock"

// DockerNamespaces are those in which Docker keeps its containers and plugins.
// Who tracks Docker skips them here.
var DockerNamespaces = []string{"moby", "plugins.moby"}

// Options of an Engine. The zero value is usable.
type Options struct {
	// Socket is the path of containerd's socket, also as unix:///path. With ""
	// it is DefaultSocket, if there is any.
	Socket string
	// Skip are namespaces whose containers are tracked by another runtime.
	Skip []string
}

// Engine is a containerd behind its socket. It need not run: calls fail until
// it does.
//
// There is a connection while Events runs, and only then: a new subscription
// never talks to what an old connection was left hanging on.
type Engine struct {
	socket string
	// optional: nobody said that there must be a containerd at the socket.
	optional bool
	skip     map[string]bool
	lives    lives

	mu   sync.Mutex
	conn *grpc.ClientConn
}

var _ container.Runtime = (*Engine)(nil)

// New makes the Engine. It makes no call.
func New(o Options) (*Engine, error) {
	e := &Engine{socket: strings.TrimPrefix(o.Socket, "unix://"), skip: map[string]bool{}}
	if e.socket == "" {
		e.socket, e.optional = DefaultSocket, true
	}
	if !filepath.IsAbs(e.socket) {
		return nil, fmt.Errorf("containerd at %q: want the path of its socket, from /, or %q", o.Socket, Off)
	}
	for _, ns := range o.Skip {
		e.skip[ns] = true
	}
	return e, nil
}

// Name is the prefix of containerd's containers.
func (e *Engine) Name() string { return "containerd" }

// Socket is the path of containerd's socket.
func (e *Engine) Socket() string { return e.socket }

// Version returns containerd's version.
func (e *Engine) Version(ctx context.Context) (string, error) {
	conn, err := e.connected()
	if err != nil {
		return "", err
	}
	v, err := versions.NewVersionClient(conn).Version(ctx, &emptypb.Empty{})
	if err != nil {
		return "", e.explain(ctx, err)
	}
	return v.Version, nil
}

// connect makes the connection for a subscription and its calls.
func (e *Engine) connect() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix://"+e.socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second},
			MinConnectTimeout: subscribeTimeout,
		}))
	if err != nil {
		return nil, fmt.Errorf("containerd at %s: %w", e.socket, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conn = conn
	return conn, nil
}

func (e *Engine) disconnect() {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.conn.Close()
	e.conn = nil
}

// connected returns the connection of the subscription.
func (e *Engine) connected() (*grpc.ClientConn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn == nil {
		return nil, fmt.Errorf("containerd at %s is not connected", e.socket)
	}
	return e.conn, nil
}

// explain adds what a person needs to an error of a call.
func (e *Engine) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("containerd at %s gave no answer: %w", e.socket, context.Cause(ctx))
	case e.optional && missing(e.socket):
		return fmt.Errorf("%w: containerd has no socket at %s", container.ErrAbsent, e.socket)
	case errors.Is(err, os.ErrPermission) || strings.Contains(err.Error(), "permission denied"):
		return fmt.Errorf("containerd at %s: %w; run the agent as root", e.socket, err)
	}
	return fmt.Errorf("containerd at %s: %w", e.socket, err)
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

func notFound(err error) bool { return status.Code(err) == codes.NotFound }

// within directs calls to one of containerd's namespaces.
func within(ctx context.Context, namespace string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "containerd-namespace", namespace)
}

// join makes the id by which the tracker knows a container; split takes it
// apart. There is no colon in names of containerd.
func join(namespace, id string) string { return namespace + ":" + id }

func split(joined string) (namespace, id string) {
	namespace, id, _ = strings.Cut(joined, ":")
	return namespace, id
}
