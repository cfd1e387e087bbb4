package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
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
	resp, err := request(ctx, p, func(ctx context.Context, l *link) (*clientv3.GetResponse, error) {
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
		if isCompacted(err) {
			continue // the list took longer than history is kept
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

// Revision is the one that the store stands at.
func (p *Plugin) Revision(ctx context.Context) (int64, error) {
	resp, err := request(ctx, p, func(ctx context.Context, l *link) (*clientv3.GetResponse, error) {
		return l.kv.Get(ctx, p.source.idKey, clientv3.WithCountOnly())
	})
	if err != nil {
		return 0, p.cfg.storeError("ask for the revision", err)
	}
	return resp.Header.Revision, nil
}

// Write carries out all writes as one transaction, or none, and returns the
// revision it made. [Plugin.Reached] tells when that has become intent.
func (p *Plugin) Write(ctx context.Context, writes []models.Write) (int64, error) {
	// Those of the client library take three times the room and copy each once more.
	req := &etcdserverpb.TxnRequest{
		Compare: make([]*etcdserverpb.Compare, 0, len(writes)),
		Success: make([]*etcdserverpb.RequestOp, 0, len(writes)),
	}
	parts := make([]txnPart, len(writes))
	bytes, seen := 0, make(map[string]bool, len(writes))
	for i, w := range writes {
		key, err := p.key(w.Key)
		if err != nil {
			return 0, err
		}
		if seen[key] {
			return 0, fmt.Errorf("write: %s is named twice in one transaction", w.Key)
		}
		seen[key] = true
		bytes += len(key) + len(w.Value) + 64
		parts[i].addTo(req, []byte(key), w)
	}
	if err := p.awaited(ctx).fits(len(writes), bytes); err != nil {
		return 0, err
	}
	resp, err := request(ctx, p, func(ctx context.Context, l *link) (*etcdserverpb.TxnResponse, error) {
		resp, err := l.store.Txn(ctx, req)
		return resp, clientv3.ContextError(ctx, err)
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

// txnPart is what one write is in a transaction.
type txnPart struct {
	compare  etcdserverpb.Compare
	revision etcdserverpb.Compare_ModRevision
	op       etcdserverpb.RequestOp
	asPut    etcdserverpb.RequestOp_RequestPut
	put      etcdserverpb.PutRequest
}

func (t *txnPart) addTo(req *etcdserverpb.TxnRequest, key []byte, w models.Write) {
	if w.If != nil {
		t.revision.ModRevision = *w.If
		t.compare.Key, t.compare.TargetUnion = key, &t.revision
		t.compare.Target, t.compare.Result = etcdserverpb.Compare_MOD, etcdserverpb.Compare_EQUAL
		req.Compare = append(req.Compare, &t.compare)
	}
	if w.Value == nil {
		t.op.Request = &etcdserverpb.RequestOp_RequestDeleteRange{RequestDeleteRange: &etcdserverpb.DeleteRangeRequest{Key: key}}
	} else {
		t.put.Key, t.put.Value, t.asPut.RequestPut = key, w.Value, &t.put
		t.op.Request = &t.asPut
	}
	req.Success = append(req.Success, &t.op)
}

// fits refuses what the store would refuse, with a hint. An unconnected link
// has no limits; it fails anyway.
func (l *link) fits(ops, bytes int) error {
	if l.maxOps > 0 && ops > l.maxOps {
		return fmt.Errorf("write: %d keys do not fit into one transaction of this etcd, which allows %d; %w", ops, l.maxOps, models.ErrStoreTooMuch)
	}
	if l.maxBytes > 0 && bytes > l.maxBytes {
		return fmt.Errorf("write: %d bytes do not fit into one request of this etcd, which allows %d; %w", bytes, l.maxBytes, models.ErrStoreTooMuch)
	}
	return nil
}

func (c Config) writeError(err error) error {
	switch said := rpctypes.Error(err); {
	case errors.Is(said, rpctypes.ErrNoSpace):
		return errors.New("write: the store is full; compact and defragment it, raise its quota, then disarm the alarm (etcdctl alarm disarm)")
	case errors.Is(said, rpctypes.ErrTooManyOps):
		return fmt.Errorf("write: too many keys for one transaction of this etcd; %w", models.ErrStoreTooMuch)
	case errors.Is(said, rpctypes.ErrRequestTooLarge):
		return fmt.Errorf("write: too many bytes for one request of this etcd; %w", models.ErrStoreTooMuch)
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
