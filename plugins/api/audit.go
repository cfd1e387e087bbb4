package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plumb-net/plumb/plugins/access"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// maxKeys bounds the keys that a line of the log names.
const maxKeys = 10

// audited writes a line into the log for each call that takes more than a viewer, whoever
// makes it: who, what, on which keys, and what came of it. No values are in it.
func (s *Server) audited() connect.UnaryInterceptorFunc {
	roles := needed()
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			if roles[r.Spec().Procedure] <= access.Viewer {
				return next(ctx, r)
			}
			if seen, ok := ctx.Value(auditKey{}).(*bool); ok {
				*seen = true
			}
			// By the level as it was: the call may be the one that changes it.
			told := s.Log.Enabled(ctx, slog.LevelInfo)
			began := time.Now()
			resp, err := next(ctx, r)
			refused := err != nil && connect.CodeOf(err) == connect.CodePermissionDenied
			if !told && !refused {
				return resp, err
			}
			var answer any
			if err == nil {
				answer = resp.Any()
			}
			line := auditLine(callerOf(ctx), r.Spec().Procedure, r.Any(), answer, err)
			line.AddAttrs(slog.Duration("took", time.Since(began).Round(time.Microsecond)))
			if refused {
				line.Level = slog.LevelWarn
				s.refused.handle(ctx, s.Log.Handler(), line)
			} else {
				_ = s.Log.Handler().Handle(ctx, line)
			}
			return resp, err
		}
	}
}

// auditKey is where the context of a request notes that a line was written.
type auditKey struct{}

// undecoded writes the line of calls that [Server.audited] never sees, as they cannot be
// decoded or are too long.
func (s *Server) undecoded(next http.Handler) http.Handler {
	roles := needed()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if roles[r.URL.Path] <= access.Viewer {
			next.ServeHTTP(w, r)
			return
		}
		seen, began := new(bool), time.Now()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), auditKey{}, seen)))
		if *seen || !s.Log.Enabled(r.Context(), slog.LevelInfo) {
			return
		}
		err := connect.NewError(connect.CodeInvalidArgument, errors.New("it cannot be decoded"))
		line := auditLine(callerOf(r.Context()), r.URL.Path, nil, nil, err)
		line.AddAttrs(slog.Duration("took", time.Since(began).Round(time.Microsecond)))
		s.undecodable.handle(r.Context(), s.Log.Handler(), line)
	})
}

// auditLine is what is told of a call.
func auditLine(c caller, procedure string, request, answer any, err error) slog.Record {
	line := slog.NewRecord(time.Now(), slog.LevelInfo, "call", 0)
	line.AddAttrs(slog.String("by", c.name), slog.String("role", c.role.String()), slog.String("from", c.from),
		slog.String("call", procedure[strings.LastIndexByte(procedure, '/')+1:]))
	keys := concerned(request, answer)
	if len(keys) > 0 {
		named := keys[:min(len(keys), maxKeys)]
		for i := range named {
			named[i] = short(named[i])
		}
		line.AddAttrs(slog.Any("keys", named))
	}
	if len(keys) > maxKeys {
		line.AddAttrs(slog.Int("keys_total", len(keys)))
	}
	for _, name := range []protoreflect.Name{"message", "reason", "level"} {
		if text := stringOf(request, name); text != "" {
			line.AddAttrs(slog.String("message", short(text)))
		}
	}
	if a, ok := answer.(interface{ GetRevision() int64 }); ok && a.GetRevision() != 0 {
		line.AddAttrs(slog.Int64("revision", a.GetRevision()))
	}
	outcome := "done"
	if o := stringOf(answer, "outcome"); o != "" {
		outcome = o
	}
	if err != nil { // its text may quote a value
		outcome = connect.CodeOf(err).String()
	}
	line.AddAttrs(slog.String("outcome", outcome))
	return line
}

// concerned are the keys that a call is about: those that its answer says have changed, or
// else those that it names.
func concerned(request, answer any) (keys []string) {
	if a, ok := answer.(*apiv1.ApplyResponse); ok { // of the only one that may be long
		for _, c := range a.GetChanges() {
			keys = append(keys, c.Key)
		}
	}
	for _, m := range []any{answer, request} {
		if len(keys) > 0 {
			break
		}
		m, ok := m.(proto.Message)
		if !ok || m == nil {
			continue
		}
		collect(m.ProtoReflect(), &keys)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// subjects are the fields that say what a message is about, and parts those that hold
// messages which do.
var (
	subjects = []protoreflect.Name{"key", "keys", "target", "targets", "delete", "id", "name", "prefix"}
	parts    = []protoreflect.Name{"items", "changes", "apply", "released", "confirm"}
)

func collect(m protoreflect.Message, keys *[]string) {
	fields := m.Descriptor().Fields()
	for _, name := range subjects {
		f := fields.ByName(name)
		switch {
		case f == nil || f.Kind() != protoreflect.StringKind || !m.Has(f):
		case f.IsList():
			for i := range m.Get(f).List().Len() {
				*keys = append(*keys, m.Get(f).List().Get(i).String())
			}
		default:
			*keys = append(*keys, m.Get(f).String())
		}
	}
	for _, name := range parts {
		f := fields.ByName(name)
		switch {
		case f == nil || f.Kind() != protoreflect.MessageKind || !m.Has(f):
		case f.IsList():
			for i := range m.Get(f).List().Len() {
				collect(m.Get(f).List().Get(i).Message(), keys)
			}
		default:
			collect(m.Get(f).Message(), keys)
		}
	}
}

// stringOf is a text of a message, "" if it has no such field.
func stringOf(m any, name protoreflect.Name) string {
	p, ok := m.(proto.Message)
	if !ok {
		return ""
	}
	f := p.ProtoReflect().Descriptor().Fields().ByName(name)
	if f == nil || f.Kind() != protoreflect.StringKind || f.IsList() {
		return ""
	}
	return p.ProtoReflect().Get(f).String()
}

const (
	// sparingLines is how many lines may be written within sparingTime about what anybody
	// can bring about.
	sparingLines = 20
	sparingTime  = time.Minute
)

// sparing writes few lines into the log, so that nobody can fill the disk with them, and
// tells with the next how many it has kept back.
type sparing struct {
	mu      sync.Mutex // guards what follows
	since   time.Time
	written int
	kept    int
}

func (s *sparing) warn(log *slog.Logger, text string, args ...any) {
	line := slog.NewRecord(time.Now(), slog.LevelWarn, text, 0)
	line.Add(args...)
	s.handle(context.Background(), log.Handler(), line)
}

func (s *sparing) handle(ctx context.Context, to slog.Handler, line slog.Record) {
	kept, ok := s.next(line.Time)
	if !ok || !to.Enabled(ctx, line.Level) {
		return
	}
	if kept > 0 {
		line.AddAttrs(slog.Int("not_told", kept))
	}
	_ = to.Handle(ctx, line)
}

// next reports whether a line may be written now, and how many were not since the last.
func (s *sparing) next(now time.Time) (kept int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.since) >= sparingTime {
		s.since, s.written = now, 0
	}
	if s.written == sparingLines {
		s.kept++
		return 0, false
	}
	s.written++
	kept, s.kept = s.kept, 0
	return kept, true
}
