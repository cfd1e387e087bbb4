package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/time/rate"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/apiv1/apiv1connect"
)

const (
	// maxRequest bounds a request: some hundred values of the largest size.
	maxRequest = 64 << 20
	// headerTime is how long a handshake of TLS may take, and the header of a request.
	headerTime = 10 * time.Second
	// idleTime is for how long a connection may have no call.
	idleTime = 2 * time.Minute
	// stopTime is how long calls may take to end when the agent stops.
	stopTime = time.Second
)

// Server answers operators.
type Server struct {
	Config
	// watchers counts the calls that follow statuses.
	watchers atomic.Int32
	// pace is when those who watch are told, and encoded what they were told last.
	pace    *rate.Limiter
	encoded encodings
	// probing is full while a probe of the loop has no answer.
	probing chan struct{}
	// refused tells of those who were refused.
	refused sparing
	// undecodable are calls that were not understood.
	undecodable sparing
	// judgeEvery is that constant, which is less in tests.
	judgeEvery time.Duration
}

// New makes a server; it answers once Serve is called.
func New(c Config) (*Server, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Server{Config: c, probing: make(chan struct{}, 1), judgeEvery: judgeEvery,
		pace: rate.NewLimiter(toldPerSecond, toldAtOnce)}, nil
}

var _ apiv1connect.AgentHandler = (*Server)(nil)

// Handler is everything that is served, without the check of who asks.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	path, calls := apiv1connect.NewAgentHandler(s,
		connect.WithCodec(apiv1.Codec{}),
		connect.WithCompression("gzip", nil, nil), // it costs more than a local socket
		connect.WithReadMaxBytes(maxRequest),
		connect.WithInterceptors(s.audited(), ended{}),
		connect.WithRecover(s.recovered),
	)
	mux.Handle(path, s.undecoded(calls))
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	if s.Recent != nil {
		mux.Handle("GET /log", s.Recent)
	}
	if s.Metrics != nil {
		mux.Handle("GET /metrics", s.Metrics)
	}
	if s.Pages != nil {
		mux.Handle(uiPath, s.Pages)
	}
	return mux
}

// Serve answers on the listener until ctx ends, and closes it. What is under
// way then is cancelled. Who connects is root: see Listen.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC
	srv := &http.Server{
		Handler:           withDeadlines(newLimits().limited(s.Handler()), s.BodyTime),
		Protocols:         protocols,
		ReadHeaderTimeout: headerTime,
		ConnContext:       withPeer,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
	}
	return s.serve(ctx, srv, func() error { return srv.Serve(l) })
}

// serve runs the server, which run begins, until ctx ends.
func (s *Server) serve(ctx context.Context, srv *http.Server, run func() error) error {
	srv.IdleTimeout = idleTime
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
	served := make(chan error, 1)
	go func() { served <- run() }()
	select {
	case err := <-served:
		return fmt.Errorf("api: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if err := srv.Shutdown(stop); err != nil {
		srv.Close() // a client that does not read
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("api: %w", err)
	}
	return nil
}

func (s *Server) recovered(_ context.Context, spec connect.Spec, _ http.Header, p any) error {
	s.Log.Error("a call panicked", "call", spec.Procedure, "panic", p)
	return connect.NewError(connect.CodeInternal, fmt.Errorf("the agent stumbled over this call: %v; please report it", p))
}
