package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plumb-net/plumb/plugins/etcd/dial"
	"github.com/plumb-net/plumb/plugins/etcd/embedded"
	"github.com/plumb-net/plumb/plugins/fleet/record"
	"github.com/plumb-net/plumb/scheduler"
)

// Plugin is the agent's tie to its store: source of intent, writer of
// statuses, presence, and the store port of the API. Its methods may be called
// from any goroutine, before and after Run too: then the store is down.
type Plugin struct {
	cfg      Config
	source   *source
	status   *statusWriter
	presence *presence
	memory   *memory
	health   healthKeeper

	// link is nil while there is no connection.
	link atomic.Pointer[link]
	// opened gets a token when there is a connection.
	opened chan struct{}
	// starting is set once Run connects; begun is closed when that was tried once.
	starting atomic.Bool
	begun    chan struct{}
	// named is closed once it is known who we are.
	named    chan struct{}
	firstTry sync.Once
}

// Main is called by a program that runs plugins with embedded stores, before
// anything else: if this process was started to be such a store, it does not
// return.
func Main() { embedded.Main() }

// New makes the plugin and touches nothing but files that the configuration
// names. decode reads values (models.Decode), submit takes the transactions,
// and statuses begins to watch all statuses; it is called at every connection.
func New(c Config, decode Decoder, submit Submitter, statuses func() StatusWatcher) (*Plugin, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if c.files, err = dial.OpenTLS(c.cluster()); err != nil {
		return nil, err
	}
	if err := checkFiles(c); err != nil {
		return nil, err
	}
	m := openMemory(c.StateDir)
	p := &Plugin{cfg: c, memory: m, source: newSource(c, m, decode, submit), opened: make(chan struct{}, 1), begun: make(chan struct{}), named: make(chan struct{})}
	p.presence = &presence{
		label: c.Label, key: c.prefix() + record.PresenceKey, duplicate: c.prefix() + record.DuplicateKey, tune: c.tune, log: c.Log,
	}
	p.status = &statusWriter{
		prefix: c.prefix() + "status/", holder: p.presence, incarnation: c.Incarnation,
		tune: c.tune, log: c.Log, open: statuses, lists: &p.source.lists, digests: newDigester(),
		underWay: p.source.converged.underWay, intent: p.source.keys,
	}
	return p, nil
}

// checkFiles finds a missing or broken file at once, not when etcd is there.
func checkFiles(c Config) error {
	if c.PasswordFile != "" {
		if err := dial.CheckPassword(c.PasswordFile); err != nil {
			return fmt.Errorf("etcd password: %w", err)
		}
	}
	for _, w := range c.warnings() {
		c.Log.Warn(w)
	}
	return nil
}

// Name is that of the source in transactions.
func (p *Plugin) Name() string { return Source }

// Place: the store has no places besides the keys themselves.
func (p *Plugin) Place(string) string { return "" }

// Run ties the agent to the store until ctx ends. A store that cannot be
// reached is waited for, for ever, and the embedded one is started again. Run
// fails when the state directory cannot be written, and with a
// *LabelTakenError when another live agent serves the label.
func (p *Plugin) Run(ctx context.Context) error {
	p.starting.Store(true)
	defer p.tried()
	defer p.cfg.Early.Close()
	uuid, err := loadUUID(p.cfg.StateDir)
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	p.presence.me = record.Presence{
		UUID: uuid, Incarnation: p.cfg.Incarnation, Host: host, PID: os.Getpid(),
		Version: p.cfg.Version, Labels: p.cfg.Labels, StartedAt: time.Now().UTC().Truncate(time.Second),
	}
	close(p.named)
	defer p.connect(ctx)()
	if err := p.takeLabel(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	defer p.leave(ctx)
	return p.work(ctx)
}

// work runs the parts until ctx ends.
func (p *Plugin) work(ctx context.Context) error {
	var parts sync.WaitGroup
	parts.Go(func() { p.source.run(ctx, p.current) })
	parts.Go(func() { p.presence.keep(ctx, p.current) })
	parts.Go(func() { p.status.run(ctx, p.current) })
	parts.Go(func() { p.source.converged.run(ctx) })
	parts.Go(func() { p.tellConverged(ctx) })
	parts.Go(func() { p.watchServer(ctx) })
	parts.Go(func() { p.remember(ctx) })
	parts.Wait()
	return nil
}

// takeLabel tries until the label is ours, another has it, or ctx ends.
func (p *Plugin) takeLabel(ctx context.Context) error {
	b := backoff{min: p.cfg.tune.retryMin, max: p.cfg.tune.retryMax}
	said := ""
	for ctx.Err() == nil {
		err := p.presence.begin(ctx, p.current())
		if err == nil || errors.Is(err, ErrLabelTaken) {
			return err
		}
		if ctx.Err() == nil {
			if why := p.cfg.say(err); why != said && !errors.Is(err, errNoStore) { // which is told where it is opened
				p.cfg.Log.Warn("the store cannot be reached", "reason", why)
				said = why
			}
			b.wait(ctx, p.opened)
		}
	}
	return nil
}

// leave gives the label back and notes how far we saw.
func (p *Plugin) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 300*time.Millisecond)
	defer cancel()
	p.presence.end(ctx, p.current())
	if err := p.memory.save(); err != nil {
		p.cfg.Log.Warn("the record of the store is old", "error", err)
	}
}

// remember writes the last revision seen to disk, now and then.
func (p *Plugin) remember(ctx context.Context) {
	t := time.NewTicker(p.cfg.tune.saveEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := p.memory.save(); err != nil {
			p.cfg.Log.Warn("the record of the store cannot be written", "error", err)
		}
	}
}

// Accept believes the store that answers, whatever it is, and submits its
// complete word: what it lacks is withdrawn. The handle is that transaction's.
func (p *Plugin) Accept(ctx context.Context) (*scheduler.Handle, error) {
	if p.link.Load() == nil {
		return nil, p.cfg.storeError("accept", p.whyClosed())
	}
	return p.source.accept(ctx)
}

// Reached blocks until everything that the store held at the revision was
// submitted, so that what follows on a write can be waited for.
func (p *Plugin) Reached(ctx context.Context, revision int64) error {
	return p.source.reach(ctx, p.current, revision)
}
