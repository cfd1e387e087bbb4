// Package loglevel decides of each part of the agent how much it logs.
//
// A part is known by the attribute "part" of its logger. Levels can be changed at any time.
package loglevel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

const (
	// Agent names the level of all parts that have none of their own, and of what
	// belongs to no part.
	Agent = "agent"
	// Default, as the level of a part, takes its own level away.
	Default = "default"
)

// ErrUnknown is in the error about a part that is not there.
var ErrUnknown = errors.New("unknown part")

// Levels are the levels of the agent and its parts.
type Levels struct {
	agent slog.LevelVar
	parts map[string]*own
}

// own is the level of one part, nil if it has none of its own.
type own struct{ atomic.Pointer[slog.Level] }

// New makes levels of these parts. All log from Info on.
func New(parts ...string) *Levels {
	l := &Levels{parts: make(map[string]*own, len(parts))}
	for _, p := range parts {
		l.parts[p] = new(own)
	}
	return l
}

// SetAll sets levels by a text such as "info" or "info,etcd=debug,cni=warn": the level
// of the agent first, if it is there.
func (l *Levels) SetAll(text string) error {
	for i, one := range strings.Split(text, ",") {
		name, level, named := strings.Cut(strings.TrimSpace(one), "=")
		if !named && i == 0 {
			name, level = Agent, name
		} else if !named {
			return fmt.Errorf("want PART=LEVEL after the first comma, not %q", one)
		}
		if err := l.Set(name, level); err != nil {
			return err
		}
	}
	return nil
}

// Set sets the level of a part or of the agent.
func (l *Levels) Set(name, text string) error {
	part, known := l.parts[name]
	if !known && name != Agent {
		return fmt.Errorf("%w %q; known are %s", ErrUnknown, name, strings.Join(l.Names(), ", "))
	}
	level, ok := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}[strings.ToLower(text)]
	switch {
	case known && text == Default:
		part.Store(nil)
	case known && !ok:
		return fmt.Errorf("level %q of %s: want debug, info, warn, error or default", text, name)
	case !ok:
		return fmt.Errorf("level %q: want debug, info, warn or error", text)
	case known:
		part.Store(&level)
	default:
		l.agent.Set(level)
	}
	return nil
}

// Names are the agent and its parts, sorted.
func (l *Levels) Names() []string {
	names := append(slices.Collect(maps.Keys(l.parts)), Agent)
	slices.Sort(names)
	return names
}

// Level is from where on a part logs, and whether that is the level of the agent.
func (l *Levels) Level(name string) (level string, byDefault bool) {
	part := l.parts[name]
	return strings.ToLower(l.of(part).String()), part != nil && part.Load() == nil
}

func (l *Levels) of(part *own) slog.Level {
	if part != nil {
		if level := part.Load(); level != nil {
			return *level
		}
	}
	return l.agent.Level()
}

// Handler makes a handler that hands to another what its part is to log. The other has
// to take every level.
func (l *Levels) Handler(to slog.Handler) slog.Handler { return handler{to: to, levels: l} }

type handler struct {
	to      slog.Handler
	levels  *Levels
	part    *own // nil: none
	grouped bool // attributes are those of a group from here on
}

// Enabled implements slog.Handler.
func (h handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.levels.of(h.part)
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error { return h.to.Handle(ctx, r) }

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.to = h.to.WithAttrs(attrs)
	for _, a := range attrs {
		if a.Key == "part" && !h.grouped {
			h.part = h.levels.parts[a.Value.String()]
		}
	}
	return h
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	h.to, h.grouped = h.to.WithGroup(name), h.grouped || name != ""
	return h
}
