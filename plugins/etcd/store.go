package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/plumb-net/plumb/models"
)

// Get reads a key, named without /plumb/<label>/: "config/interface/web". ok
// reports whether it is there.
func (p *Plugin) Get(ctx context.Context, key string) (kv models.Stored, ok bool, err error) {
	full, err := p.key(key)
	if err != nil {
		return kv, false, err
	}
	resp, err := healing(ctx, p, func(ctx context.Context, l *link) (*clientv3.GetResponse, error) {
		return l.kv.Get(ctx, full)
	})
	if err != nil {
		return kv, false, p.cfg.storeError("get "+key, err)
	}
	if len(resp.Kvs) == 0 {
		return kv, false, nil
	}
	return models.Stored{Key: key, Value: resp.Kvs[0].Value, Revision: resp.Kvs[0].ModRevision}, true, nil
}

// List reads all keys under a prefix ("config/route/", "" for all of the
// label) as they are at one revision, sorted.
func (p *Plugin) List(ctx context.Context, prefix string) ([]models.Stored, error) {
	base := p.cfg.prefix()
	for range 3 {
		l := p.awaited(ctx)
		snap, err := list(ctx, l, p.cfg.tune, base+prefix, "")
		if isCompacted(err) || err != nil && p.heal(ctx, l, err) {
			continue // or the list took longer than history is kept
		}
		if err != nil {
			return nil, p.cfg.storeError("list "+prefix, err)
		}
		out := make([]models.Stored, len(snap.kvs))
		for i, kv := range snap.kvs {
			out[i] = models.Stored{Key: string(kv.Key[len(base):]), Value: kv.Value, Revision: kv.ModRevision}
		}
		return out, nil
	}
	return nil, fmt.Errorf("list %s: the store is compacted faster than it can be listed", prefix)
}

// Write carries out all writes as one transaction, or none, and returns the
// revision it made. [Plugin.Reached] tells when that has become intent.
func (p *Plugin) Write(ctx context.Context, writes []models.Write) (int64, error) {
	ifs, ops := make([]clientv3.Cmp, 0, len(writes)), make([]clientv3.Op, 0, len(writes))
	bytes, seen := 0, make(map[string]bool, len(writes))
	for _, w := range writes {
		key, err := p.key(w.Key)
		if err != nil {
			return 0, err
		}
		if seen[key] {
			return 0, fmt.Errorf("write: %s is named twice in one transaction", w.Key)
		}
		seen[key] = true
		bytes += len(key) + len(w.Value) + 64
		if w.If != nil {
			ifs = append(ifs, clientv3.Compare(clientv3.ModRevision(key), "=", *w.If))
		}
		if w.Value == nil {
			ops = append(ops, clientv3.OpDelete(key))
		} else {
			ops = append(ops, clientv3.OpPut(key, string(w.Value)))
		}
	}
	if err := p.awaited(ctx).fits(len(ops), bytes); err != nil {
		return 0, err
	}
	resp, err := healing(ctx, p, func(ctx context.Context, l *link) (*clientv3.TxnResponse, error) {
		return l.kv.Txn(ctx).If(ifs...).Then(ops...).Commit()
	})
	if err != nil {
		return 0, p.cfg.writeError(err)
	}
	if !resp.Succeeded {
		return 0, fmt.Errorf("write: %w", models.ErrStoreConflict)
	}
	p.source.heard(resp.Header.Revision)
	return resp.Header.Revision, nil
}

// fits refuses what the store would refuse, with a hint. An unconnected link
// has no limits; it fails anyway.
func (l *link) fits(ops, bytes int) error {
	if l.maxOps > 0 && ops > l.maxOps {
		return fmt.Errorf("write: %d keys do not fit into one transaction of this etcd, which allows %d; use --chunked to write them in several, or write fewer at once", ops, l.maxOps)
	}
	if l.maxBytes > 0 && bytes > l.maxBytes {
		return fmt.Errorf("write: %d bytes do not fit into one request of this etcd, which allows %d; use --chunked to write them in several, or write fewer at once", bytes, l.maxBytes)
	}
	return nil
}

func (c Config) writeError(err error) error {
	switch said := rpctypes.Error(err); {
	case errors.Is(said, rpctypes.ErrNoSpace):
		return errors.New("write: the store is full; compact and defragment it, raise its quota, then disarm the alarm (etcdctl alarm disarm)")
	case errors.Is(said, rpctypes.ErrTooManyOps):
		return errors.New("write: too many keys for one transaction of this etcd; use --chunked to write them in several, or write fewer at once")
	case errors.Is(said, rpctypes.ErrRequestTooLarge):
		return errors.New("write: too many bytes for one request of this etcd; use --chunked to write them in several, or write fewer at once")
	}
	return c.storeError("write", err)
}

// key makes a full key. It cannot leave the label: etcd knows no "..".
func (p *Plugin) key(key string) (string, error) {
	if key == "" || strings.HasPrefix(key, "/") {
		return "", fmt.Errorf("store key %q: write it without /plumb/%s/, for example config/interface/web", key, p.cfg.Label)
	}
	return p.cfg.prefix() + key, nil
}
