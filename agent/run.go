package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/plugins/buildinfo"
	"github.com/plumb-net/plumb/plugins/etcd"
	"github.com/plumb-net/plumb/plugins/proxy"
	"github.com/plumb-net/plumb/scheduler"
)

// Main is called first of all by a program that runs agents: if this process
// was started to be the store of one, or a proxy, it does not return.
func Main() {
	proxy.Main()
	etcd.Main()
}

// SpareMemory has the garbage of this process collected when the heap has grown by 30 % of
// what is alive, where Go waits until that has doubled. Most of what an agent has in memory
// during a mass of changes is garbage, and this costs it a twentieth of its processor. It
// begins once an agent is ready: the heap of one that starts grows from nothing, and to collect
// it a dozen times meanwhile would take a third of the start. It is for programs that do little
// else than to run an agent; the environment variable GOGC prevails.
func SpareMemory() { sparing.Store(os.Getenv("GOGC") == "") }

var sparing atomic.Bool

// spareFromNow is called when an agent is ready, or should have been.
func spareFromNow() {
	if sparing.Load() {
		debug.SetGCPercent(30)
	}
}

// startTime is how long a start may take memory as it likes.
const startTime = time.Minute

// Run runs the agent until ctx ends, and leaves the network as it is. log is given
// what the levels of the configuration let through, and has to take every level.
func Run(ctx context.Context, c Config, log slog.Handler) error { return run(ctx, c, thisHost, log) }

func run(ctx context.Context, c Config, on func(Config) (*ground, error), log slog.Handler) error {
	a, err := wire(c, on, log)
	if err != nil {
		return err
	}
	defer a.host.close()
	a.log.Info("plumb-agent starts", "label", c.Label, "version", buildinfo.String(), "run_dir", c.RunDir, "state_dir", c.StateDir)
	return a.run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
}

// component is a part that runs until its context ends.
type component struct {
	name string
	run  func(ctx context.Context) error
}

// stages are the parts in the order of their start; they stop in reverse, each
// stage once the later ones have: who asks stops before who is asked.
func (a *agent) stages() [][]component {
	var sources []component
	for _, s := range a.sources {
		sources = append(sources, component{s.Name(), s.Run})
	}
	below := []component{{"containers", a.tracker.Run}} // before the scheduler, which asks them
	if a.history != nil {
		follower := a.sched.Follow()
		below = append(below, component{"history", func(ctx context.Context) error { return a.history.Run(ctx, follower) }})
	}
	if a.traces != nil {
		follower := a.sched.Follow()
		below = append(below, component{"traces", func(ctx context.Context) error { return a.traces.Run(ctx, follower) }})
	}
	if a.resources != nil {
		below = append(below, component{"resources", a.resources.Run})
	}
	below = append(below, component{"handles", a.host.closeUnused}, component{"announcer", a.host.announcer.Run})
	record := []component{{"recorder", func(ctx context.Context) error { return a.recorder.run(ctx, a.tracker.Runtimes) }}}
	if a.eventFile != nil { // to the last event of the others
		record = append(record, component{"events", func(ctx context.Context) error {
			return a.eventFile.Run(ctx, a.recorder.log, a.eventsFrom)
		}})
	}
	calls := []component{{"cni", a.serveCNI}, {"api", a.serve}}
	if a.gate != nil {
		calls = append(calls, component{"listen", a.serveRemote})
	}
	return [][]component{
		record,
		below,
		{{"scheduler", a.sched.Run}},
		sources,
		{{"attachments", a.keepAttached}, {"confirm", a.confirms.Run}},
		{{"fleet", a.member.Run}},
		calls,
		{{"systemd", a.notify}, {"ready", a.tellReady}, {"files", a.keepFiles}},
	}
}

// run starts all parts, then main, and stops them when main returns, when ctx
// ends, or when one of them fails.
func (a *agent) run(ctx context.Context, main func(context.Context) error) error {
	failed := make(chan error, 16)
	var stops []func()
	for _, stage := range a.stages() {
		stops = append(stops, start(stage, failed))
	}
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- main(work) }()

	var result error
	select {
	case result = <-done:
	case result = <-failed:
		cancel()
		<-done //nolint:errcheck // what failed first counts
	}
	for i := len(stops) - 1; i >= 0; i-- {
		stops[i]()
	}
	close(failed)
	var all *multierror.Error
	if result != nil {
		all = multierror.Append(all, result)
	}
	for err := range failed {
		all = multierror.Append(all, err)
	}
	return inLines(all)
}

// inLines is all errors, each in its line; nil if there is none.
func inLines(all *multierror.Error) error {
	if all != nil {
		all.ErrorFormat = func(errs []error) string { return errors.Join(errs...).Error() }
	}
	return all.ErrorOrNil()
}

// start runs the parts of a stage; stop ends them and waits.
func start(stage []component, failed chan<- error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, c := range stage {
		running.Go(func() {
			if err := c.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				failed <- fmt.Errorf("%s: %w", c.name, err)
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

func (a *agent) serve(ctx context.Context) error {
	l, err := api.Listen(filepath.Join(a.config.RunDir, "agent.sock"), a.log, a.surroundings.of("agent.sock"))
	if err != nil {
		return err
	}
	close(a.serves)
	return a.api.Serve(ctx, l)
}

// accept believes a replaced store, and ledgers that lack something, and waits until
// the scheduler has heard.
func (a *agent) accept(ctx context.Context) error {
	store, err := a.store.Accept(ctx)
	if err != nil {
		return err
	}
	ledger, err := a.believe("accepted by an operator")
	if a.pods != nil {
		a.pods.Accept()
		a.nodeIntents.Accept()
	}
	for _, h := range []*scheduler.Handle{store, ledger} {
		if h != nil && err == nil {
			_, err = h.Wait(ctx)
		}
	}
	return err
}

// place tells where a source keeps a key.
func (a *agent) place(source, key string) string {
	for _, s := range a.sources {
		if s.Name() == source {
			return s.Place(key)
		}
	}
	return ""
}

// synced waits until all sources have told what they want and all that is there was read.
// What cannot be read, as a container runtime that hangs, is not waited for for ever.
func (a *agent) synced(ctx context.Context) error { return a.syncedBut(ctx, "") }

// syncedBut is synced without waiting for one source.
func (a *agent) syncedBut(ctx context.Context, source string) error {
	sources, err := a.sched.Sources(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, s := range required(sources) {
		if s.Name != source {
			names = append(names, s.Name)
		}
	}
	if len(names) > 0 { // else it would be all
		if err := a.sched.WaitForSources(ctx, names...); err != nil {
			return err
		}
	}
	known, cancel := context.WithTimeout(ctx, runtimesTime)
	defer cancel()
	if err := a.tracker.WaitSynced(known); err == nil {
		_ = a.sched.WaitForKinds(known)
	}
	return ctx.Err()
}

// waitSourcesSynced waits until every source has synced, or one never will: then one
// of those that are asked says why.
func (a *agent) waitSourcesSynced(ctx context.Context, failed ...func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		sources, err := a.sched.Sources(ctx)
		if err != nil {
			return err
		}
		if allSynced(required(sources)) {
			return nil
		}
		for _, f := range failed {
			if err := f(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not every source has synced: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func allSynced(sources []scheduler.SourceState) bool {
	for _, s := range sources {
		if !s.Synced {
			return false
		}
	}
	return true
}
