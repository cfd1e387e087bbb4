package cni

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/plumb-net/plumb/plugins/cni/wire"
)

// maxTries is how often a call that was left is tried, at the start of the agent and
// with each sweep, before it is put aside.
const maxTries = 5

// Request is a call as plumb-cni makes it.
type Request = wire.Request

// Queue is what was left for the agent while it was down; Dir is the directory of
// its socket.
type Queue struct{ Dir string }

// Left are the calls, the oldest first, and those that cannot be read.
func (q Queue) Left() (left, bad []wire.Left, err error) { return wire.Queue(q.Dir) }

// Leave notes a DEL that is to be done again at the next start.
func (q Queue) Leave(r Request) error {
	r.Queued = time.Now().Unix()
	return wire.Leave(q.Dir, r)
}

// Replay does what was left while the agent was down, the oldest first, before
// anybody can ask. run is the directory of the socket. What fails is tried again at
// the next start; what fails too often, and what cannot be read, is put aside under
// another name, so that it holds up nobody. When ctx ends the rest is left for the
// next start. It returns how many were done.
func Replay(ctx context.Context, run string, h Handler, log *slog.Logger) (done int) {
	return replay(ctx, run, h, log, func(wire.Left) bool { return true })
}

// ReplayNew does what was left since the last replay, as Replay does: what has been
// tried already waits for the next sweep.
func ReplayNew(ctx context.Context, run string, h Handler, log *slog.Logger) (done int) {
	return replay(ctx, run, h, log, func(l wire.Left) bool { return l.Tries == 0 })
}

func replay(ctx context.Context, run string, h Handler, log *slog.Logger, due func(wire.Left) bool) (done int) {
	left, bad, err := wire.Queue(run)
	if err != nil {
		log.Warn("what was left for the agent cannot be read", "error", err)
	}
	for _, b := range bad {
		log.Warn("a DEL that was left cannot be read", "file", b.File, "error", b.Err)
		b.Aside()
	}
	for _, l := range slices.DeleteFunc(left, func(l wire.Left) bool { return !due(l) }) {
		if ctx.Err() != nil {
			return done
		}
		a := replayed(ctx, l, h)
		if a.Error == nil {
			done++
			l.Done()
			continue
		}
		log.Warn("a DEL that was left failed", "container", l.ContainerID, "interface", l.IfName, "tries", l.Tries+1, "error", a.Error)
		if l.Tries+1 >= maxTries {
			l.Aside()
		} else if err := l.Again(); err != nil {
			log.Warn("a DEL that was left cannot be counted", "file", l.File, "error", err)
		}
	}
	return done
}

func replayed(ctx context.Context, l wire.Left, h Handler) wire.Answer {
	c, wrong := Parse(l.Request)
	if wrong != nil {
		return wire.Answer{Error: wrong}
	}
	ctx, cancel := context.WithTimeout(ctx, maxCallTime)
	defer cancel()
	return h.Serve(ctx, c)
}
