package etcd

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// snapshot is a range of keys as it was at one revision.
type snapshot struct {
	rev     int64
	cluster uint64
	kvs     []*mvccpb.KeyValue // sorted by key
	// id is the value of the identity key at the same revision, and idRev
	// the revision that last changed it; 0 if it is not there.
	id    string
	idRev int64
}

func (s *snapshot) identity() identity {
	return identity{ID: s.id, Revision: s.rev, Cluster: s.cluster}
}

// firstPage is small, because nothing is known yet of the size of values.
const firstPage = 256

// list reads everything below prefix at one revision, page by page, so that
// neither side must hold an answer of any size. With idKey it reads that key
// at the same revision. When the revision is compacted away meanwhile, the
// error is etcd's ErrCompacted.
func list(ctx context.Context, l *link, t tuning, prefix, idKey string) (*snapshot, error) {
	end := clientv3.GetPrefixRangeEnd(prefix)
	ops := []clientv3.Op{clientv3.OpGet(prefix, clientv3.WithRange(end), clientv3.WithLimit(firstPage))}
	if idKey != "" {
		ops = append(ops, clientv3.OpGet(idKey))
	}
	resp, err := withTimeout(ctx, t, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return l.kv.Txn(ctx).Then(ops...).Commit()
	})
	if err != nil {
		return nil, err
	}
	s := &snapshot{rev: resp.Header.Revision, cluster: resp.Header.ClusterId}
	if idKey != "" {
		for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
			s.id, s.idRev = string(kv.Value), kv.ModRevision
		}
	}
	page := resp.Responses[0].GetResponseRange()
	s.kvs = page.Kvs
	if !page.More || len(page.Kvs) == 0 {
		return s, nil
	}
	return s, s.pages(ctx, l, t, after(page.Kvs), end, pageLimit(page.Kvs, t.pageBytes), func(kvs []*mvccpb.KeyValue) {
		s.kvs = append(s.kvs, kvs...)
	})
}

// scan calls do with everything below prefix as it was at a revision.
func scan(ctx context.Context, l *link, t tuning, prefix string, rev int64, do func(*mvccpb.KeyValue)) error {
	s := &snapshot{rev: rev}
	return s.pages(ctx, l, t, prefix, clientv3.GetPrefixRangeEnd(prefix), firstPage, func(kvs []*mvccpb.KeyValue) {
		for _, kv := range kvs {
			do(kv)
		}
	})
}

// pages reads a range at the revision of the snapshot, page by page.
func (s *snapshot) pages(ctx context.Context, l *link, t tuning, from, end string, limit int64, do func([]*mvccpb.KeyValue)) error {
	for {
		got, err := withTimeout(ctx, t, func(ctx context.Context) (*clientv3.GetResponse, error) {
			return l.kv.Get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(s.rev), clientv3.WithLimit(limit))
		})
		if err != nil {
			return err
		}
		if s.cluster != 0 && got.Header.ClusterId != s.cluster {
			return fmt.Errorf("%w: the cluster changed from %x to %x within a list", errOtherStore, s.cluster, got.Header.ClusterId)
		}
		s.cluster = got.Header.ClusterId
		do(got.Kvs)
		if !got.More || len(got.Kvs) == 0 {
			return nil
		}
		from, limit = after(got.Kvs), pageLimit(got.Kvs, t.pageBytes)
	}
}

// after is where the page after these keys begins.
func after(kvs []*mvccpb.KeyValue) string { return string(kvs[len(kvs)-1].Key) + "\x00" }

// pageLimit guesses from the last page how many keys weigh bytes.
func pageLimit(kvs []*mvccpb.KeyValue, bytes int) int64 {
	sum := 0
	for _, kv := range kvs {
		sum += len(kv.Key) + len(kv.Value) + 32
	}
	return int64(min(max(bytes/(sum/len(kvs)), 16), 10_000))
}

// withTimeout bounds one request.
func withTimeout[R any](ctx context.Context, t tuning, do func(context.Context) (R, error)) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, t.opTimeout)
	defer cancel()
	return do(ctx)
}
