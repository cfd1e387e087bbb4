package cni

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/plugins/private"
)

// Call is a request that was read and checked.
type Call struct {
	wire.Request
	Network spec.Config
	// pools are the ippools of operators that the network names.
	pools map[string]*models.IPPool
	// restored: it is of an attachment that was there before a start; recorded are the keys that
	// it wanted then.
	restored bool
	recorded []string
	// without are the families of which the container gets no default route.
	without []string
}

// Key names the attachment that the call is about.
func (c Call) Key() Key { return Key{c.Network.Name, c.ContainerID, c.IfName} }

// runtime is what the runtime asks for.
func (c Call) runtime() (network.Runtime, *spec.Error) {
	return network.RuntimeOf(c.Network, c.Args.Args)
}

// endpoint is what is to be attached.
func (c Call) endpoint(rt network.Runtime) network.Endpoint {
	return network.Endpoint{ID: c.Key().id(), IfName: c.IfName, Netns: c.Netns, Inode: c.Inode, Runtime: rt, Sysctl: c.Network.Sysctl, Without: c.without}
}

// Handler does what is asked. The context ends when its time is over, when who asked
// has gone, and when the agent stops.
type Handler interface {
	Serve(ctx context.Context, c Call) wire.Answer
}

// Options of a server. The zero value works.
type Options struct {
	// Log is where what goes wrong on the agent's side is told.
	Log *slog.Logger
	// Stop is for how long calls under way may go on when the agent stops.
	// Default 3 s.
	Stop time.Duration
	// Restored, if it is set, is called with nil when the socket was removed and is there again,
	// and with an error when it cannot be made again.
	Restored func(error)
}

// Server answers plumb-cni at a socket.
type Server struct {
	handler Handler
	opts    Options
	calls   sync.WaitGroup
	figures figures
	busy    chan struct{}
}

const (
	// ioTimeout is for how long either side may take to say something.
	ioTimeout = 5 * time.Second
	// margin is by how much the agent gives up before the plugin does, so that its
	// own error is the one that is seen.
	margin = time.Second
	// maxCallTime is what a call may take that does not say how long it waits.
	maxCallTime = 30 * time.Second
	// maxCalls is how many calls are served at a time; the others wait.
	maxCalls = 512
)

// NewServer makes a server.
func NewServer(h Handler, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Stop == 0 {
		o.Stop = 3 * time.Second
	}
	return &Server{handler: h, opts: o, busy: make(chan struct{}, maxCalls)}
}

// Run serves the socket at the path until ctx ends, and calls ready, if it is not
// nil, once it does. At the end nobody can ask any more, calls under way have a
// little time, and it returns when all have ended.
func (s *Server) Run(ctx context.Context, path string, ready func()) error {
	l, err := private.Listen(path)
	if err != nil {
		return err
	}
	l.Refused = func(uid int, err error) { s.opts.Log.Warn("a call was refused", "user", uid, "error", err) }
	l.Restored = s.opts.Restored
	if ready != nil {
		ready()
	}
	work, cancel := context.WithCancel(context.Background())
	defer cancel()
	closed := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		closed <- l.Close()
		time.AfterFunc(s.opts.Stop, cancel)
	})
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			s.calls.Wait()
			return <-closed
		case err != nil: // too many files: it passes
			s.opts.Log.Warn("cannot take a call", "error", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		s.calls.Go(func() {
			defer conn.Close()
			s.converse(work, conn)
		})
	}
}

// Figures are how often each command had which outcome, and how long that took.
func (s *Server) Figures() []Figure { return s.figures.list() }

// converse is one connection: hello, request, answer.
func (s *Server) converse(ctx context.Context, conn net.Conn) {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := wire.NewReader(conn)
	var r wire.Request
	err := conn.SetDeadline(time.Now().Add(ioTimeout))
	if err == nil {
		err = wire.Write(conn, wire.Hello{Plumb: "cni", Oldest: wire.Oldest, Newest: wire.Version})
	}
	if err == nil {
		err = lines.Read(&r)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		s.opts.Log.Warn("a call was not understood", "error", err)
		return
	}
	left := make(chan struct{})
	go func() { // nothing more is said; what comes is the end
		defer close(left)
		_ = lines.Read(&struct{}{})
		cancel()
	}()
	answer := s.answer(ctx, r)
	err = conn.SetWriteDeadline(time.Now().Add(ioTimeout))
	if err == nil {
		err = wire.Write(conn, answer)
	}
	if err != nil {
		s.opts.Log.Warn("an answer was not taken", "command", r.Command, "container", r.ContainerID, "error", err)
	}
	conn.Close()
	<-left
}

// answer checks a request and has it served, within its time.
func (s *Server) answer(ctx context.Context, r wire.Request) (a wire.Answer) {
	began := time.Now()
	defer func() { s.figures.count(r.Command, a.Error, time.Since(began)) }()
	c, wrong := Parse(r)
	if wrong != nil {
		return wire.Answer{Error: wrong}
	}
	limit := maxCallTime
	if r.Timeout > 0 {
		limit = min(limit, max(time.Duration(r.Timeout)*time.Millisecond-margin, margin))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s.opts.Log.Error("a call panicked", "command", r.Command, "panic", p, "stack", string(debug.Stack()))
			a = wire.Answer{Error: &spec.Error{Code: spec.Internal, Msg: "plumb-agent has a bug", Details: fmt.Sprint(p)}}
		}
	}()
	return s.handler.Serve(ctx, c)
}

// Parse checks a request as the plugin has done, since it may be of another release.
func Parse(r wire.Request) (Call, *spec.Error) {
	if r.Protocol < wire.Oldest && r.Queued == 0 || r.Protocol > wire.Version {
		return Call{}, &spec.Error{Code: spec.TryLater, Msg: "the protocol is not known", Details: fmt.Sprint(r.Protocol)}
	}
	args, wrong := spec.ReadArgs(func(name string) string {
		return map[string]string{"CNI_COMMAND": r.Command, "CNI_CONTAINERID": r.ContainerID, "CNI_NETNS": r.Netns,
			"CNI_IFNAME": r.IfName, "CNI_ARGS": r.Args.Args, "CNI_PATH": r.Path}[name]
	})
	if wrong != nil {
		return Call{}, wrong
	}
	config, wrong := spec.ParseConfig(args.Command, r.Config)
	if wrong != nil {
		return Call{}, wrong
	}
	return Call{Request: r, Network: config}, nil
}
