package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/etcd/dial"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

// presence keeps the label ours, by a lease that nothing else uses. It asks no
// other part for anything, so that a busy agent does not lose its label.
type presence struct {
	me    record.Presence
	label string
	key   string
	// duplicate is the key below which we say that another has the label that we want, and
	// told when we last did.
	duplicate string
	told      time.Time
	tune      tuning
	log       *slog.Logger

	mu    sync.Mutex // guards what follows
	lease int64      // 0: not held
	err   error      // why it is not held
}

// begin takes the label for the first time. A label that another live agent
// holds is an error of type *LabelTakenError; other errors mean that the store
// could not be asked.
func (p *presence) begin(ctx context.Context, l *link) error {
	err := p.acquire(ctx, l)
	if err != nil {
		p.set(0, err)
	}
	return err
}

// keep holds the label until ctx ends. Unlike begin it goes on when another
// agent took it: that agent may end, and what we serve is served meanwhile.
func (p *presence) keep(ctx context.Context, current func() *link) {
	every := p.tune.leaseTTL / 3
	t := time.NewTimer(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err := p.renew(ctx, current())
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			t.Reset(every)
			continue
		}
		p.set(p.held(), err)
		t.Reset(min(every, time.Second))
	}
}

// renew prolongs the lease and looks whether the key is still ours.
func (p *presence) renew(ctx context.Context, l *link) error {
	lease := p.held()
	if lease == 0 {
		return p.acquire(ctx, l)
	}
	if err := keepAlive(ctx, l, p.tune, lease); err != nil {
		if errors.Is(err, errLeaseGone) {
			p.log.Warn("the lease of presence ended and is made anew")
			return p.acquire(ctx, l)
		}
		return err
	}
	kv, err := p.get(ctx, l)
	if err != nil {
		return err
	}
	if kv == nil || kv.Lease != lease {
		return p.acquire(ctx, l)
	}
	p.set(lease, nil)
	return nil
}

// acquire puts our presence under a new lease, unless another agent holds the
// label. It compares the revision that it judged, so two who try at once do
// not both succeed.
func (p *presence) acquire(ctx context.Context, l *link) error {
	p.set(0, nil)
	kv, err := p.get(ctx, l)
	if err != nil {
		return err
	}
	var rev, old int64
	if kv != nil {
		if err := p.mayTake(ctx, l, kv); err != nil {
			p.tellDuplicate(ctx, l, err)
			return err
		}
		rev, old = kv.ModRevision, kv.Lease
	}
	lease, err := grant(ctx, l, p.tune)
	if err != nil {
		return err
	}
	value, err := json.Marshal(p.me)
	if err != nil {
		return err
	}
	resp, err := withTimeout(ctx, p.tune, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return l.kv.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(p.key), "=", rev)).
			Then(clientv3.OpPut(p.key, string(value), clientv3.WithLease(clientv3.LeaseID(lease)))).Commit()
	})
	if err == nil && !resp.Succeeded {
		err = errors.New("presence: another agent wrote it at the same moment")
	}
	if err != nil {
		revoke(ctx, l, p.tune, lease)
		return err
	}
	p.set(lease, nil)
	if old != 0 {
		// The lease of our former life; the key has left it.
		revoke(ctx, l, p.tune, old)
	}
	return nil
}

// mayTake reports whether the presence found may be replaced: it is our own from
// a former life, or nothing keeps it alive.
func (p *presence) mayTake(ctx context.Context, l *link, kv *mvccpb.KeyValue) error {
	if kv.Lease == 0 {
		return nil // written by hand or left by a restored snapshot
	}
	var holder record.Presence
	if json.Unmarshal(kv.Value, &holder) == nil && holder.UUID == p.me.UUID && !p.younger(holder) {
		return nil
	}
	ttl, err := timeToLive(ctx, l, p.tune, kv.Lease)
	if errors.Is(err, errLeaseGone) {
		return nil
	}
	return &LabelTakenError{Label: p.label, Holder: holder, Expires: ttl}
}

const (
	// duplicateTTL is how long it is told that somebody wanted the label in vain, and
	// duplicateEvery how often at most.
	duplicateTTL, duplicateEvery = time.Minute, 20 * time.Second
)

// tellDuplicate has who looks at the fleet know that two agents want the label. It is
// worth one try.
func (p *presence) tellDuplicate(ctx context.Context, l *link, why error) {
	if !errors.Is(why, ErrLabelTaken) || time.Since(p.told) < duplicateEvery {
		return
	}
	value, err := json.Marshal(record.Duplicate{Presence: p.me, Time: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return
	}
	lease, err := grantFor(ctx, l, p.tune, duplicateTTL)
	if err != nil {
		return
	}
	_, err = withTimeout(ctx, p.tune, func(ctx context.Context) (*clientv3.PutResponse, error) {
		return l.kv.Put(ctx, p.duplicate, string(value), clientv3.WithLease(clientv3.LeaseID(lease)))
	})
	if err == nil {
		p.told = time.Now()
	}
}

// younger reports whether a presence with our UUID belongs to an agent on
// another host that started after us: it runs on a copy of our state
// directory. Taking the label back would start an endless quarrel.
func (p *presence) younger(holder record.Presence) bool {
	return holder.Host != p.me.Host && holder.StartedAt.After(p.me.StartedAt)
}

// end gives the label back, so that the next agent need not wait.
func (p *presence) end(ctx context.Context, l *link) {
	if lease := p.held(); lease != 0 {
		revoke(ctx, l, p.tune, lease)
	}
	p.set(0, nil)
}

// held is the lease under which the label is ours, or 0.
func (p *presence) held() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lease
}

// write writes only while the label is ours: an agent that lost it must not write over
// what the one that has it tells.
func (p *presence) write(ctx context.Context, l *link, ops []clientv3.Op) error {
	lease := p.held()
	if lease == 0 {
		return errNotHolder
	}
	resp, err := withTimeout(ctx, p.tune, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return l.kv.Txn(ctx).
			If(clientv3.Compare(clientv3.LeaseValue(p.key), "=", clientv3.LeaseID(lease))).
			Then(ops...).Commit()
	})
	if err == nil && !resp.Succeeded {
		err = errNotHolder
	}
	return err
}

// problem is why the label is not ours, if it is not.
func (p *presence) problem() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *presence) set(lease int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lease, p.err = lease, err
}

func (p *presence) get(ctx context.Context, l *link) (*mvccpb.KeyValue, error) {
	resp, err := withTimeout(ctx, p.tune, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return l.kv.Get(ctx, p.key)
	})
	if err != nil || len(resp.Kvs) == 0 {
		return nil, err
	}
	return resp.Kvs[0], nil
}

// The leases are asked for directly: the client library's keep-alive repeats a
// failing request without a pause.

var errLeaseGone = errors.New("the lease has ended")

func grant(ctx context.Context, l *link, t tuning) (int64, error) {
	return grantFor(ctx, l, t, t.leaseTTL)
}

func grantFor(ctx context.Context, l *link, t tuning, d time.Duration) (int64, error) {
	ttl := max(int64(d/time.Second), 1)
	resp, err := withTimeout(ctx, t, func(ctx context.Context) (*etcdserverpb.LeaseGrantResponse, error) {
		return l.lease.LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{TTL: ttl})
	})
	if err != nil {
		return 0, fmt.Errorf("lease of presence: %w", err)
	}
	return resp.ID, nil
}

// revoke ends a lease; if that fails it ends by itself.
func revoke(ctx context.Context, l *link, t tuning, id int64) {
	_, _ = withTimeout(ctx, t, func(ctx context.Context) (*etcdserverpb.LeaseRevokeResponse, error) {
		return l.lease.LeaseRevoke(ctx, &etcdserverpb.LeaseRevokeRequest{ID: id})
	})
}

func keepAlive(ctx context.Context, l *link, t tuning, id int64) error {
	once := func(ctx context.Context) (struct{}, error) {
		stream, err := l.lease.LeaseKeepAlive(ctx)
		if err != nil {
			return struct{}{}, err
		}
		if err := stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: id}); err != nil {
			return struct{}{}, err
		}
		resp, err := stream.Recv()
		if err == nil && resp.TTL <= 0 {
			err = errLeaseGone
		}
		return struct{}{}, err
	}
	_, err := withTimeout(ctx, t, once)
	if dial.Refused(err) { // the next stream gets a new token
		_, err = withTimeout(ctx, t, once)
	}
	return err
}

func timeToLive(ctx context.Context, l *link, t tuning, id int64) (time.Duration, error) {
	resp, err := withTimeout(ctx, t, func(ctx context.Context) (*etcdserverpb.LeaseTimeToLiveResponse, error) {
		return l.lease.LeaseTimeToLive(ctx, &etcdserverpb.LeaseTimeToLiveRequest{ID: id})
	})
	if errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) {
		return 0, errLeaseGone
	}
	if err != nil {
		return 0, err
	}
	if resp.TTL <= 0 {
		return 0, errLeaseGone
	}
	return time.Duration(resp.TTL) * time.Second, nil
}
