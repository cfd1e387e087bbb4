package api

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/plumb-net/plumb/plugins/access"
)

const (
	// maxHeader bounds the header of a request over the network.
	maxHeader = 32 << 10
	// maxCalls bounds the calls at a time of one connection.
	maxCalls = 64
	// judgeEvery is how often it is asked whether who called still may, while a call lasts.
	judgeEvery = 5 * time.Second
	// maxTold bounds a text of others in the log, in bytes.
	maxTold = 200
)

// ServeRemote answers over the network those whom the gate knows, as far as their role
// goes, until ctx ends, and closes the listener. See Serve.
func (s *Server) ServeRemote(ctx context.Context, l net.Listener, gate *access.Gate) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	srv := &http.Server{
		Handler:           s.guarded(gate, withDeadlines(newLimits().limited(s.Handler()), s.BodyTime)),
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxCalls},
		TLSConfig:         gate.TLS(),
		ReadHeaderTimeout: headerTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(refusals{s}, "", 0),
	}
	few := access.Few(l, func(from net.Addr) {
		s.refused.warn(s.Log, "a connection was refused: there are too many", "from", from)
	})
	return s.serve(ctx, srv, func() error { return srv.ServeTLS(few, "", "") })
}

// guarded lets those through whom the gate knows and whose role suffices. Nothing of a body
// is read before.
func (s *Server) guarded(gate *access.Gate, next http.Handler) http.Handler {
	roles, answer := needed(), connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := gate.Identify(r)
		c := caller{name: id.Name, who: id.String(), role: id.Role, from: id.From}
		role, known := roles[called(r.URL.Path)]
		what := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		switch {
		case err != nil:
			err = s.turnAway(r, c, err)
			w.Header().Set("Connection", "close")
			w.Header().Set("WWW-Authenticate", "Bearer")
		case !known:
			err = connect.NewError(connect.CodeUnimplemented, errors.New("this agent has no such call or page"))
		case c.role < role:
			err = denied(c, what, role)
			s.refused.warn(s.Log, "a call was refused", "by", c.who, "call", what, "error", err)
		}
		if err != nil {
			_ = answer.Write(w, r, err) // or the client has gone
			return
		}
		ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), callerKey{}, c))
		defer cancel(nil)
		go s.whileKnown(ctx, gate, r.Clone(ctx), id, cancel) // the header of r is the handler's
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// turnAway is the answer to somebody whom the gate does not let in.
func (s *Server) turnAway(r *http.Request, c caller, err error) error {
	code := connect.CodeUnauthenticated
	var refused *access.Refused
	if errors.As(err, &refused) && refused.Known {
		code = connect.CodePermissionDenied
	}
	s.refused.warn(s.Log, "a call was refused", "by", c.who, "call", short(r.URL.Path), "error", err)
	return connect.NewError(code, err)
}

// whileKnown cancels a call, which lasts until ctx ends, if its caller loses his role.
func (s *Server) whileKnown(ctx context.Context, gate *access.Gate, asked *http.Request, id access.Identity, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(s.judgeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, err := gate.Identify(asked)
		if err == nil && now != id {
			err = fmt.Errorf("%s is now %s; ask again", id.Name, now.Role)
		}
		if err != nil {
			s.refused.warn(s.Log, "a call was ended", "by", id.String(), "call", asked.URL.Path, "error", err)
			cancel(connect.NewError(connect.CodeUnauthenticated, err))
			return
		}
	}
}

// ended tells the caller of a call that whileKnown has cancelled why.
type ended struct{}

// WrapUnary implements connect.Interceptor.
func (ended) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		resp, err := next(ctx, r)
		return resp, whyEnded(ctx, err)
	}
}

// WrapStreamingClient implements connect.Interceptor; this is a server.
func (ended) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (ended) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return whyEnded(ctx, next(ctx, conn))
	}
}

func whyEnded(ctx context.Context, err error) error {
	var why *connect.Error
	if err != nil && errors.As(context.Cause(ctx), &why) {
		return why
	}
	return err
}

// refusals are what net/http has to say of handshakes that failed and the like.
type refusals struct{ s *Server }

func (r refusals) Write(line []byte) (int, error) {
	r.s.refused.warn(r.s.Log, "a connection was refused", "error", short(strings.TrimSpace(string(line))))
	return len(line), nil
}

// short is the beginning of a text of others.
func short(text string) string {
	if len(text) <= maxTold {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:maxTold], ""), len(text))
}
