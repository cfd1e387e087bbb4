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

// heal makes a new connection when the store refuses who we are: the password
// or the certificates may have been changed.
func (p *Plugin) heal(ctx context.Context, err error) {
	if len(p.cfg.Endpoints) == 0 || !isAuth(err) {
		return
	}
	p.opening.Lock()
	defer p.opening.Unlock()
	l, err := openExternal(ctx, p.cfg)
	p.noteOpen(err)
	if err != nil {
		return
	}
	if old := p.link.Swap(l); old != nil {
		old.close()
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
