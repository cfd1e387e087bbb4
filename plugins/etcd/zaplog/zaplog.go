package zaplog

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New makes a zap logger that writes to log; nil writes nothing. etcd speaks
// louder than it means: what it calls information is of use to those who look
// for a fault in etcd, and its warnings ("request took too long") come true
// again by themselves. So every level is lowered by one.
func New(log *slog.Logger) *zap.Logger {
	if log == nil {
		return zap.NewNop()
	}
	return zap.New(core{log.Handler()})
}

type core struct{ out slog.Handler }

func (c core) Enabled(l zapcore.Level) bool {
	return l > zapcore.DebugLevel && c.out.Enabled(context.Background(), level(l))
}

func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{c.out.WithAttrs(attrs(fields))}
}

func (c core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, level(e.Level), "etcd says", 0)
	r.AddAttrs(slog.String("message", e.Message))
	r.AddAttrs(attrs(fields)...)
	return c.out.Handle(context.Background(), r)
}

func (c core) Sync() error { return nil }

func level(l zapcore.Level) slog.Level {
	switch {
	case l <= zapcore.InfoLevel:
		return slog.LevelDebug
	case l == zapcore.WarnLevel:
		return slog.LevelInfo
	case l == zapcore.ErrorLevel:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// attrs goes through zap's own encoder, because zap fields have many types
// and only zap knows them.
func attrs(fields []zapcore.Field) []slog.Attr {
	out := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		enc := zapcore.NewMapObjectEncoder()
		f.AddTo(enc)
		if v, ok := enc.Fields[f.Key]; ok {
			out = append(out, slog.Any(f.Key, v))
		}
	}
	return out
}
