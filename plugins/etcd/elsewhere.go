package etcd

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// mostLabels bounds how many labels Elsewhere asks for.
const mostLabels = 100

// Elsewhere names the other labels below which a key is, named as in [Plugin.Get]. A
// store with more than a hundred labels is not searched to its end.
func (p *Plugin) Elsewhere(ctx context.Context, key string) (found []string, err error) {
	if _, err := p.key(key); err != nil {
		return nil, err
	}
	const all = "/plumb/"
	from := all
	for range mostLabels {
		l := p.current()
		resp, err := withTimeout(ctx, p.cfg.tune, func(ctx context.Context) (*clientv3.GetResponse, error) {
			return l.kv.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(all)), clientv3.WithLimit(1), clientv3.WithKeysOnly())
		})
		if err != nil {
			return found, p.cfg.storeError("list the labels", err)
		}
		if len(resp.Kvs) == 0 {
			return found, nil
		}
		label, _, below := strings.Cut(strings.TrimPrefix(string(resp.Kvs[0].Key), all), "/")
		if from = all + label + "0"; !below { // "0" follows "/"
			from = string(resp.Kvs[0].Key) + "\x00"
			continue
		}
		if label == p.cfg.Label {
			continue
		}
		resp, err = withTimeout(ctx, p.cfg.tune, func(ctx context.Context) (*clientv3.GetResponse, error) {
			return l.kv.Get(ctx, all+label+"/"+key, clientv3.WithKeysOnly())
		})
		if err != nil {
			return found, p.cfg.storeError("get "+key, err)
		}
		if len(resp.Kvs) > 0 {
			found = append(found, label)
		}
	}
	return found, nil
}
