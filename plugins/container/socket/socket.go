package socket

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/plumb-net/plumb/plugins/container"
)

// Off, in place of a path, says that the engine is not to be used.
const Off = "off"

// connectTimeout is how long an attempt to connect may take.
const connectTimeout = 10 * time.Second

// Socket is that of an engine, which need not run.
//
// There is a connection while a subscription stands, and only then: a new
// subscription never talks to what an old connection was left hanging on.
type Socket struct {
	engine, path string
	// optional: nobody said that there must be an engine at the path.
	optional bool

	mu   sync.Mutex
	conn *grpc.ClientConn
}

// New makes the Socket of an engine, as messages call it, at a path, also as
// unix:///path. With "" it is at the usual path, if there is any.
func New(engine, path, usual string) (*Socket, error) {
	s := &Socket{engine: engine, path: strings.TrimPrefix(path, "unix://")}
	if path == "" {
		s.path, s.optional = usual, true
	}
	if !filepath.IsAbs(s.path) {
		return nil, fmt.Errorf("%s at %q: want the path of its socket, from /, or %q", engine, path, Off)
	}
	return s, nil
}

// Path of the socket.
func (s *Socket) Path() string { return s.path }

// Open makes the connection for a subscription and the calls beside it.
func (s *Socket) Open() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix://"+s.path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second},
			MinConnectTimeout: connectTimeout,
		}))
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", s.engine, s.path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = conn
	return conn, nil
}

// Close ends what Open began.
func (s *Socket) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.conn.Close()
	s.conn = nil
}

// Conn returns the connection.
func (s *Socket) Conn() (*grpc.ClientConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.conn != nil:
		return s.conn, nil
	case s.optional && missing(s.path):
		return nil, s.absent()
	}
	return nil, fmt.Errorf("%s at %s is not connected", s.engine, s.path)
}

// Explain adds what a person needs to an error of a call.
func (s *Socket) Explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s at %s gave no answer: %w", s.engine, s.path, context.Cause(ctx))
	case s.optional && missing(s.path):
		return s.absent()
	case strings.Contains(err.Error(), "permission denied"): // gRPC keeps the text alone
		return fmt.Errorf("%s at %s: %w; run the agent as root", s.engine, s.path, err)
	}
	return fmt.Errorf("%s at %s: %w", s.engine, s.path, err)
}

func (s *Socket) absent() error {
	return fmt.Errorf("%w: %s has no socket at %s", container.ErrAbsent, s.engine, s.path)
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

// NotFound reports whether a call found that there is no such thing.
func NotFound(err error) bool { return status.Code(err) == codes.NotFound }
