package ui

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/plumb-net/plumb/plugins/private"
)

// maxStrangers is how many connections of users who may not see the page are open at a time, so
// that they get an answer and hold nothing up. More are closed at once.
const maxStrangers = 8

// Config of a Server.
type Config struct {
	// Users are the IDs of those who may see the page, besides root.
	Users []int
	// Service is what the paths of calls of the API begin with.
	Service string
	// Agent answers calls of the API.
	Agent http.Handler
}

// Server shows the page on a listener on loopback, where every user of the host and every page
// that a browser shows can connect.
type Server struct {
	gate     *gate
	listener *guarded
}

// NewServer returns a server that answers once Serve is called.
func NewServer(l net.Listener, c Config) *Server {
	program, calls := http.NewServeMux(), http.NewServeMux()
	handler := Handler()
	program.Handle(Path, handler)
	calls.Handle("POST "+Path+"parse", handler)
	for _, name := range Calls() {
		calls.Handle("POST "+c.Service+name, c.Agent)
	}
	g := newGate(l.Addr().String(), c.Users, program, calls)
	return &Server{g, &guarded{Listener: l, users: g.users}}
}

// Calls returns the names of the calls of the API that the page makes, sorted. Others are not
// passed on, whatever the user of agentctl may do.
func Calls() []string {
	return []string{"Abort", "AgentStatus", "Apply", "Blame", "Changes", "Confirm", "Events", "History", "List", "Map", "Version", "Watch", "Why"}
}

// URL returns the address of the page, which lets one browser in, once.
func (s *Server) URL() string { return s.gate.url() }

// Serve answers until ctx ends, and closes the listener.
func (s *Server) Serve(ctx context.Context) error {
	srv := &http.Server{
		Handler: s.gate, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, visitorKey{}, c)
		},
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(s.listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	srv.Close() // its streams have no end
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// guarded is a listener whose connections are of a known user.
type guarded struct {
	net.Listener
	users     map[int]bool
	mu        sync.Mutex // guards strangers
	strangers int
}

// visitorKey is where a context has the *visitor.
type visitorKey struct{}

// visitor is a connection and the user at its other end, who is the same as long as it is open.
type visitor struct {
	net.Conn
	uid int
	err error // if the user is not known
	end func()
}

// Accept implements net.Listener.
func (g *guarded) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		v := &visitor{Conn: conn, end: func() {}}
		v.uid, v.err = private.UIDOfTCP(conn)
		if v.err == nil && g.users[v.uid] || g.admit(v) {
			return v, nil
		}
		conn.Close()
	}
}

// admit lets a stranger in to be refused, if there are not too many.
func (g *guarded) admit(v *visitor) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.strangers >= maxStrangers {
		return false
	}
	g.strangers++
	v.end = sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.strangers--
	})
	return true
}

// Close implements net.Conn.
func (v *visitor) Close() error { v.end(); return v.Conn.Close() }
