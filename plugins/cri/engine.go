package cri

import (
	"context"
	"fmt"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/container/socket"
)

// DefaultSocket is where CRI-O is looked for if nobody says where an engine is.
const DefaultSocket = "/run/crio/crio.sock"

// Options of an Engine. The zero value is usable.
type Options struct {
	// Socket is the path of the engine's socket, also as unix:///path. With ""
	// it is DefaultSocket, if there is any.
	Socket string
	// Refuse are the names of engines, as they call themselves, that another
	// runtime tracks: behind the socket, they count as absent.
	Refuse []string
}

// Engine is an engine behind its socket. It need not run: calls fail until it
// does, and answer while Events runs.
type Engine struct {
	socket *socket.Socket
	refuse map[string]bool
	lists  lists
}

var _ container.Runtime = (*Engine)(nil)

// New makes the Engine. It makes no call.
func New(o Options) (*Engine, error) {
	s, err := socket.New("the CRI engine", o.Socket, DefaultSocket)
	if err != nil {
		return nil, err
	}
	e := &Engine{socket: s, refuse: map[string]bool{}}
	for _, name := range o.Refuse {
		e.refuse[name] = true
	}
	return e, nil
}

// Name is the prefix of the engine's containers.
func (e *Engine) Name() string { return "cri" }

// Ping asks the engine whether it answers.
func (e *Engine) Ping(ctx context.Context) error {
	_, err := e.Version(ctx)
	return err
}

// Version returns the engine's name and version, container.ErrAbsent if it is
// one that is refused.
func (e *Engine) Version(ctx context.Context) (string, error) {
	c, err := e.client()
	if err != nil {
		return "", err
	}
	v, err := c.Version(ctx, &runtime.VersionRequest{})
	if err != nil {
		return "", e.socket.Explain(ctx, err)
	}
	if e.refuse[v.RuntimeName] {
		return "", fmt.Errorf("%w: behind %s is %s, which is tracked by itself", container.ErrAbsent, e.socket.Path(), v.RuntimeName)
	}
	return v.RuntimeName + " " + v.RuntimeVersion, nil
}

func (e *Engine) client() (runtime.RuntimeServiceClient, error) {
	conn, err := e.socket.Conn()
	if err != nil {
		return nil, err
	}
	return runtime.NewRuntimeServiceClient(conn), nil
}
