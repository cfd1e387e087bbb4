package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/models"
)

// Author is who made a revision of the intent; ok is false if it was not made through the
// agent, or if nothing that was written then is left and that is long ago.
func (p *Plugin) Author(ctx context.Context, revision int64) (a models.Author, ok bool, err error) {
	prefix := p.cfg.prefix() + models.AuthorPrefix
	resp, err := request(ctx, p, func(ctx context.Context, l *link) (*clientv3.GetResponse, error) {
		return l.kv.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithMinModRev(revision), clientv3.WithMaxModRev(revision))
	})
	if err != nil {
		return a, false, p.cfg.storeError("get the author of a revision", err)
	}
	for _, kv := range resp.Kvs {
		if a, ok = models.ReadAuthor(kv.Value); ok {
			break
		}
	}
	return a, ok, nil
}

// prunedAuthors is how many records are removed in one transaction; a cluster takes 128
// changes.
const prunedAuthors = 100

// pruneAuthors removes the records of revisions of which no value is left, but for the
// newest: so there are never more than values and those.
func (s *source) pruneAuthors(ctx context.Context, l *link) error {
	prefix, kept := s.cfg.prefix()+models.AuthorPrefix, s.cfg.tune.keptAuthors
	get := func(key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
		return withTimeout(ctx, s.cfg.tune, func(ctx context.Context) (*clientv3.GetResponse, error) {
			return l.kv.Get(ctx, key, append(opts, clientv3.WithPrefix())...)
		})
	}
	n, err := get(prefix, clientv3.WithCountOnly())
	if err != nil || int(n.Count) <= kept+prunedAuthors {
		return err
	}
	records, err := get(prefix, clientv3.WithKeysOnly(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend))
	if err != nil {
		return err
	}
	values, err := get(s.prefix, clientv3.WithKeysOnly()) // later, so that no new record is without its value
	if err != nil {
		return err
	}
	lives := make(map[int64]bool, len(values.Kvs))
	for _, kv := range values.Kvs {
		lives[kv.ModRevision] = true
	}
	var gone []clientv3.Op
	remove := func() error {
		_, err := withTimeout(ctx, s.cfg.tune, func(ctx context.Context) (*clientv3.TxnResponse, error) {
			return l.kv.Txn(ctx).Then(gone...).Commit()
		})
		gone = nil
		return err
	}
	for _, kv := range records.Kvs[:len(records.Kvs)-kept] {
		if !lives[kv.ModRevision] {
			gone = append(gone, clientv3.OpDelete(string(kv.Key)))
		}
		if len(gone) == prunedAuthors {
			if err := remove(); err != nil {
				return err
			}
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return remove()
}
