package agent

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni"
)

// attacher serves plumb-cni.
type attacher struct {
	*cni.Service
	cni.Queue
	server *cni.Server
	// why the socket is not served, "" if it is; off: it never is.
	why atomic.Pointer[string]
	off bool
}

const (
	// replayTime bounds what is done of the calls that were left while the agent
	// was down, before new ones are taken.
	replayTime = 20 * time.Second
	// callsTime is for how long calls under way go on when the agent stops.
	callsTime = 2 * time.Second
	// listenAgain is how often a socket is tried that cannot be served.
	listenAgain = 2 * time.Second
)

// wireCNI reads what is attached, and wants it.
func (a *agent) wireCNI() {
	log := a.log.With("part", "cni")
	a.cni = &attacher{Queue: cni.Queue{Dir: a.config.RunDir}, Service: cni.NewService(a.sched, a.host.store, cniHost{a}, log)}
	a.cni.Restore()
	a.cni.server = cni.NewServer(a.cni.Service, cni.Options{Log: log, Stop: callsTime, Restored: a.surroundings.of("cni.sock")})
	a.cni.say("not served yet")
	if !a.host.kernel.attaches {
		a.cni.off = true
		a.cni.say("containers of this host are not on this kernel")
	}
}

// serveCNI takes calls until ctx ends, once those that were left are done. A socket
// that cannot be served ends nothing: the network of others does not depend on it.
func (a *agent) serveCNI(ctx context.Context) error {
	if a.cni.off {
		<-ctx.Done()
		return nil
	}
	log := a.log.With("part", "cni")
	a.replayCNI(ctx)
	for ctx.Err() == nil {
		err := a.cni.server.Run(ctx, filepath.Join(a.config.RunDir, "cni.sock"), func() { a.cni.say("") })
		if err == nil || ctx.Err() != nil {
			return err
		}
		log.Error("the socket cannot be served", "error", err)
		a.cni.say(err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(listenAgain):
		}
	}
	return nil
}

// replayCNI does what was left while the agent was down, or just about to listen.
func (a *agent) replayCNI(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()
	log := a.log.With("part", "cni")
	if n := cni.Replay(ctx, a.config.RunDir, a.cni.Service, log); n > 0 {
		log.Info("calls that were left while the agent was down are done", "calls", n)
	}
}

// keepAttached follows attachments, and removes those that nobody needs.
func (a *agent) keepAttached(ctx context.Context) error {
	var sweeps sync.WaitGroup
	defer sweeps.Wait()
	sweeps.Go(func() {
		every := time.NewTicker(cni.SweepEvery)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				if a.host.mend() == nil { // else what is left is for the next start
					a.replayCNI(ctx)
				}
				a.cni.Sweep(ctx)
				a.settleLosses(ctx)
			}
		}
	})
	if !a.cni.off {
		sweeps.Go(func() { a.watchQueue(ctx) })
	}
	return a.cni.Run(ctx)
}

// watchQueue does at once what is left while the agent is there but could not be
// reached: it was stopped, or had too much to do. Without a watch the sweeps do it.
func (a *agent) watchQueue(ctx context.Context) {
	log := a.log.With("part", "cni")
	err := a.cni.Watch(ctx, func() {
		ctx, cancel := context.WithTimeout(ctx, replayTime)
		defer cancel()
		if a.host.broken() != nil {
			return // what could not be written was left by the agent itself, for the next start
		}
		if n := cni.ReplayNew(ctx, a.config.RunDir, a.cni.Service, log); n > 0 {
			log.Info("calls that were left while the agent could not be reached are done", "calls", n)
		}
	})
	if err != nil {
		log.Warn("what is left for the agent is seen once a minute", "error", err)
	}
}

func (c *attacher) say(why string) { c.why.Store(&why) }

// health reports whether runtimes can call.
func (c *attacher) health(since time.Time) models.Health {
	h := models.Health{Name: "cni", State: "ok", Since: since}
	if why := *c.why.Load(); c.off {
		h.State, h.Reason = "off", why
	} else if why != "" {
		h.State, h.Reason = "down", "cni.sock: "+why
	} else {
		h.Reason = c.Service.Trouble() // of others; what we do we can do
	}
	return h
}
