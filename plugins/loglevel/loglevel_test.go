package loglevel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// show is which levels the loggers write, and what is told of it.
func show(l *Levels, names ...string) string {
	var b strings.Builder
	for _, name := range names {
		level, byDefault := l.Level(name)
		fmt.Fprintf(&b, "%s %s", name, level)
		if byDefault {
			b.WriteString(" (default)")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// A part logs by its own level, else by that of the agent, from the moment that it is set.
func TestLevels(t *testing.T) {
	var out bytes.Buffer
	l := New("cni", "etcd")
	log := slog.New(l.Handler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	loggers := map[string]*slog.Logger{
		"agent": log, "cni": log.With("part", "cni"), "etcd": log.With("part", "etcd").With("x", 1), "other": log.With("part", "other"),
		"group": log.WithGroup("g").With("part", "etcd"), "inner": log.With("part", "etcd").WithGroup("g").With("part", "cni"),
	}
	for _, tc := range []struct{ name, level, want string }{
		{"agent", "info", "agent=info cni=info etcd=info group=info inner=info other=info"},
		{"etcd", "debug", "agent=info cni=info etcd=debug group=info inner=debug other=info"},
		{"agent", "warn", "agent=warn cni=warn etcd=debug group=warn inner=debug other=warn"},
		{"cni", "error", "agent=warn cni=error etcd=debug group=warn inner=debug other=warn"},
		{"etcd", "default", "agent=warn cni=error etcd=warn group=warn inner=warn other=warn"},
		{"agent", "DEBUG", "agent=debug cni=error etcd=debug group=debug inner=debug other=debug"},
	} {
		if err := l.Set(tc.name, tc.level); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range []string{"agent", "cni", "etcd", "group", "inner", "other"} {
			out.Reset()
			for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
				loggers[name].Log(context.Background(), level, "said")
			}
			_, first, _ := strings.Cut(out.String(), "level=")
			got = append(got, name+"="+strings.ToLower(strings.Fields(first)[0]))
		}
		if got := strings.Join(got, " "); got != tc.want {
			t.Errorf("set %s %s: %s, want %s", tc.name, tc.level, got, tc.want)
		}
	}
	if got, want := show(l, l.Names()...), "agent debug\ncni error\netcd debug (default)\n"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestSetAll(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"warn", "agent warn\ncni warn (default)\netcd warn (default)\n"},
		{"info, etcd=debug,cni=error", "agent info\ncni error\netcd debug\n"},
		{"etcd=debug", "agent info\ncni info (default)\netcd debug\n"},
		{"agent=error,etcd=default", "agent error\ncni error (default)\netcd error (default)\n"},
		{"", `level "": want debug, info, warn or error`},
		{"loud", `level "loud": want debug, info, warn or error`},
		{"info,debug", `want PART=LEVEL after the first comma, not "debug"`},
		{"info,", `want PART=LEVEL after the first comma, not ""`},
		{"info,etcd=loud", `level "loud" of etcd: want debug, info, warn, error or default`},
		{"default", `level "default": want debug, info, warn or error`},
		{"info,ectd=debug", `unknown part "ectd"; known are agent, cni, etcd`},
	} {
		l := New("etcd", "cni")
		var got string
		if err := l.SetAll(tc.text); err != nil {
			got = err.Error()
			if errors.Is(err, ErrUnknown) != strings.HasPrefix(got, "unknown") {
				t.Errorf("%q: %v", tc.text, err)
			}
		} else {
			got = show(l, l.Names()...)
		}
		if got != tc.want {
			t.Errorf("%q: got %s, want %s", tc.text, got, tc.want)
		}
	}
}

// A line that was let through is written, whatever the level is by now: the call that
// silences the log is in the log.
func TestLetThrough(t *testing.T) {
	var out bytes.Buffer
	l := New()
	log := l.Handler(slog.NewMultiHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err := l.Set(Agent, "error"); err != nil {
		t.Fatal(err)
	}
	if err := log.Handle(context.Background(), slog.Record{Level: slog.LevelInfo, Message: "silenced"}); err != nil || out.Len() == 0 {
		t.Errorf("%v, written %q", err, out.String())
	}
}

// What is not logged costs nothing to speak of.
func TestDisabledIsCheap(t *testing.T) {
	l := New("etcd")
	log := slog.New(l.Handler(slog.NewTextHandler(new(bytes.Buffer), nil))).With("part", "etcd")
	if n := testing.AllocsPerRun(100, func() { log.Debug("no", "x", 1) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
