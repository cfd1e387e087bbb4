package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/fleet/record"
)

// ring tells that something may be asked of the agent.
func (s *source) ring() {
	select {
	case s.asked <- struct{}{}:
	default:
	}
}

// Asked has a token when something below record.ForAgent may have changed.
func (p *Plugin) Asked() <-chan struct{} { return p.source.asked }

// Me is who we are; it blocks until that is known or ctx ends.
func (p *Plugin) Me(ctx context.Context) (record.Presence, error) {
	select {
	case <-p.named:
		return p.presence.me, nil
	case <-ctx.Done():
		return record.Presence{}, ctx.Err()
	}
}

// Tell writes a key below the label, as long as the label is ours: an agent that lost it must
// not write over what the one that has it tells. With a lease the key goes when that ends.
func (p *Plugin) Tell(ctx context.Context, key string, value []byte, lease int64) error {
	full, err := p.key(key)
	if err != nil {
		return err
	}
	var opts []clientv3.OpOption
	if lease != 0 {
		opts = append(opts, clientv3.WithLease(clientv3.LeaseID(lease)))
	}
	return p.presence.write(ctx, p.current(), []clientv3.Op{clientv3.OpPut(full, string(value), opts...)})
}
