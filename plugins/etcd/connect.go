package etcd

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// connect opens the store and keeps an embedded one open until stop. An
// external one is tried until ctx ends; an embedded one that does not start is
// tried again beside everything else, since containers come and go without it.
func (p *Plugin) connect(ctx context.Context) (stop func()) {
	if len(p.cfg.Endpoints) > 0 {
		p.dial(ctx)
		return p.disconnect
	}
	keep, cancel := context.WithCancel(context.WithoutCancel(ctx))
	first, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		p.keepEmbedded(keep, sync.OnceFunc(func() { close(first); p.tried() }))
	}()
	select {
	case <-first:
	case <-ctx.Done():
	}
	return func() { cancel(); <-done }
}

// dial opens an external store.
func (p *Plugin) dial(ctx context.Context) {
	b := backoff{min: p.cfg.tune.retryMin, max: p.cfg.tune.retryMax}
	for ctx.Err() == nil {
		l, err := openExternal(ctx, p.cfg)
		p.noteOpen(err)
		if err == nil {
			p.link.Store(l)
		}
		p.tried()
		if err == nil {
			return
		}
		b.wait(ctx, nil)
	}
}

// keepEmbedded starts the embedded store whenever it does not run, until ctx
// ends. tried is called after every attempt.
func (p *Plugin) keepEmbedded(ctx context.Context, tried func()) {
	b := backoff{min: p.cfg.tune.retryMin, max: p.cfg.tune.restartMax}
	for again := false; ctx.Err() == nil; {
		slow := time.AfterFunc(p.cfg.tune.slowStart, func() { p.noteOpen(errSlowStart); tried() })
		l, err := openEmbedded(ctx, p.cfg, again)
		slow.Stop()
		again = err != nil
		if err == nil {
			begin := time.Now()
			err = p.useEmbedded(ctx, l, tried)
			if time.Since(begin) > p.cfg.tune.restartMax {
				b.reset() // it had run well
			}
		}
		if ctx.Err() != nil {
			return
		}
		p.noteOpen(&embeddedError{err})
		tried()
		b.wait(ctx, nil)
	}
}

// useEmbedded lets everybody use the store until it or ctx ends.
func (p *Plugin) useEmbedded(ctx context.Context, l *link, tried func()) error {
	p.noteOpen(nil)
	p.link.Store(l)
	tried()
	p.rouse()
	defer p.disconnect()
	select {
	case <-ctx.Done():
		return nil
	case <-l.gone:
		return l.end()
	}
}

// rouse ends the pauses of those who wait for the store.
func (p *Plugin) rouse() {
	for _, wake := range []chan struct{}{p.opened, p.source.wake} {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// request sends a request to the store, bounded by the timeout of requests.
func request[R any](ctx context.Context, p *Plugin, do func(context.Context, *link) (R, error)) (R, error) {
	l := p.awaited(ctx)
	return withTimeout(ctx, p.cfg.tune, func(ctx context.Context) (R, error) { return do(ctx, l) })
}

func (p *Plugin) disconnect() {
	if l := p.link.Swap(nil); l != nil {
		l.close()
	}
}

// noteOpen notes why there is no connection. It is logged once per reason.
func (p *Plugin) noteOpen(err error) {
	p.health.mu.Lock()
	defer p.health.mu.Unlock()
	if err != nil && (p.health.open == nil || p.cfg.say(p.health.open) != p.cfg.say(err)) {
		p.cfg.Log.Warn("the store cannot be reached", "reason", p.cfg.say(err))
	}
	p.health.open = err
}

// whyClosed is why there is no connection.
func (p *Plugin) whyClosed() error {
	p.health.mu.Lock()
	defer p.health.mu.Unlock()
	if p.health.open != nil {
		return p.health.open
	}
	return errNoStore
}

// current is the connection; without one, it is a link on which everything
// fails, so that callers need not ask.
func (p *Plugin) current() *link {
	if l := p.link.Load(); l != nil {
		return l
	}
	return services(nowhere{p.whyClosed()})
}

// tried ends the wait for the first try to connect.
func (p *Plugin) tried() { p.firstTry.Do(func() { close(p.begun) }) }

// awaited is the connection, for the sake of who asks right after the start: until it was
// tried for the first time, or takes long, it is waited for.
func (p *Plugin) awaited(ctx context.Context) *link {
	if p.starting.Load() && p.link.Load() == nil {
		select {
		case <-p.begun:
		case <-ctx.Done():
		}
	}
	return p.current()
}

// nowhere is a connection to nothing.
type nowhere struct{ why error }

func (n nowhere) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return n.why
}

func (n nowhere) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, n.why
}
