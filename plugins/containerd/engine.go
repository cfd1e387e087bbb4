package containerd

import (
	"context"
	"strings"

	versions "github.com/containerd/containerd/api/services/version/v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/container/socket"
)

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
// it does, and answer while Events runs.
type Engine struct {
	socket *socket.Socket
	skip   map[string]bool
	lives  lives
}

var _ container.Runtime = (*Engine)(nil)

// New makes the Engine. It makes no call.
func New(o Options) (*Engine, error) {
	s, err := socket.New("containerd", o.Socket, DefaultSocket)
	if err != nil {
		return nil, err
	}
	e := &Engine{socket: s, skip: map[string]bool{}}
	for _, ns := range o.Skip {
		e.skip[ns] = true
	}
	return e, nil
}

// Name is the prefix of containerd's containers.
func (e *Engine) Name() string { return "containerd" }

// Ping asks the engine whether it answers.
func (e *Engine) Ping(ctx context.Context) error {
	_, err := e.Version(ctx)
	return err
}

// Version returns containerd's version.
func (e *Engine) Version(ctx context.Context) (string, error) {
	conn, err := e.socket.Conn()
	if err != nil {
		return "", err
	}
	v, err := versions.NewVersionClient(conn).Version(ctx, &emptypb.Empty{})
	if err != nil {
		return "", e.socket.Explain(ctx, err)
	}
	return v.Version, nil
}

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
