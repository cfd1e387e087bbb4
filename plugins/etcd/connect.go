package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// connect opens the store. The embedded one starts or fails; an external one
// is tried until ctx ends.
func (p *Plugin) connect(ctx context.Context) error {
	if len(p.cfg.Endpoints) == 0 {
		l, err := openEmbedded(ctx, p.cfg)
		if err != nil {
			return err
		}
		p.link.Store(l)
		return nil
	}
	b := backoff{min: p.cfg.tune.retryMin, max: p.cfg.tune.retryMax}
	for {
		l, err := openExternal(ctx, p.cfg)
		p.noteOpen(err)
		if err == nil {
			p.link.Store(l)
			return nil
		}
		b.wait(ctx, nil)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// heal makes a new connection in the place of one on which the store no longer
// knows who we are, and tells whether it is worth trying again at once.
func (p *Plugin) heal(ctx context.Context, failed *link, err error) bool {
	if len(p.cfg.Endpoints) == 0 || !isAuth(err) {
		return false
	}
	p.opening.Lock()
	defer p.opening.Unlock()
	if p.link.Load() != failed {
		return p.link.Load() != nil // somebody else was quicker
	}
	l, err := openExternal(ctx, p.cfg)
	p.noteOpen(err)
	if err != nil {
		return false
	}
	p.link.Store(l)
	failed.close()
	return true
}

// healing does something with the store, and once more if the connection had
// to be healed.
func healing[R any](ctx context.Context, p *Plugin, do func(context.Context, *link) (R, error)) (R, error) {
	for tries := 0; ; tries++ {
		l := p.current()
		r, err := withTimeout(ctx, p.cfg.tune, func(ctx context.Context) (R, error) { return do(ctx, l) })
		if err == nil || tries > 0 || !p.heal(ctx, l, err) {
			return r, err
		}
	}
}

func (p *Plugin) disconnect() {
	if l := p.link.Swap(nil); l != nil {
		l.close()
	}
}

func (p *Plugin) noteOpen(err error) {
	p.health.mu.Lock()
	defer p.health.mu.Unlock()
	if err != nil && p.health.open == nil {
		p.cfg.Log.Warn("the store cannot be reached", "reason", plain(err))
	}
	p.health.open = err
}

// current is the connection; without one, it is a link on which everything
// fails, so that callers need not ask.
func (p *Plugin) current() *link {
	if l := p.link.Load(); l != nil {
		return l
	}
	conn := nowhere{}
	return &link{
		kv:    clientv3.NewKVFromKVClient(etcdserverpb.NewKVClient(conn), nil),
		watch: etcdserverpb.NewWatchClient(conn),
		lease: etcdserverpb.NewLeaseClient(conn),
		maint: etcdserverpb.NewMaintenanceClient(conn),
		close: func() {},
	}
}

// nowhere is a connection to nothing.
type nowhere struct{}

func (nowhere) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return errNoStore
}

func (nowhere) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errNoStore
}
