package dial

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// batch is how many keys are read or written in one transaction: etcd takes 128.
	batch = 100
	// batchBytes bounds what is written in one.
	batchBytes = 1 << 20
)

// Client reads and writes keys of a cluster, for who does not follow them. Its errors say
// where the cluster is and what it is like there.
type Client struct {
	config Config
	client *clientv3.Client
	kv     clientv3.KV
	lease  clientv3.Lease
}

// KV is a key with its value.
type KV struct {
	Key   string
	Value []byte
}

// Connect makes a client. It does not wait for the cluster.
func Connect(ctx context.Context, c Config) (*Client, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	files, err := OpenTLS(c)
	if err != nil {
		return nil, err
	}
	if c.PasswordFile != "" {
		if err := CheckPassword(c.PasswordFile); err != nil {
			return nil, fmt.Errorf("etcd password: %w", err)
		}
	}
	client, err := Open(ctx, c, files)
	if err != nil {
		return nil, c.error(err)
	}
	// The services of the client library wait for a lost connection and do not say why.
	conn := client.ActiveConnection()
	return &Client{
		config: c, client: client, kv: clientv3.NewKVFromKVClient(etcdserverpb.NewKVClient(conn), nil),
		lease: clientv3.NewLeaseFromLeaseClient(etcdserverpb.NewLeaseClient(conn), client, c.OpTimeout),
	}, nil
}

func (c Config) error(err error) error { return fmt.Errorf("etcd: %s", c.Say(err)) }

// Close ends the connection.
func (c *Client) Close() {
	_ = c.lease.Close()
	_ = c.client.Close()
}

// txn is one transaction.
func (c *Client) txn(ctx context.Context, ifs []clientv3.Cmp, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.OpTimeout)
	defer cancel()
	resp, err := c.kv.Txn(ctx).If(ifs...).Then(ops...).Commit()
	if err != nil {
		return nil, c.config.error(err)
	}
	return resp, nil
}

// Get reads keys; those that are not there are not in the answer.
func (c *Client) Get(ctx context.Context, keys ...string) (map[string][]byte, error) {
	out := make(map[string][]byte, len(keys))
	for len(keys) > 0 {
		n := min(len(keys), batch)
		ops := make([]clientv3.Op, n)
		for i, k := range keys[:n] {
			ops[i] = clientv3.OpGet(k)
		}
		resp, err := c.txn(ctx, nil, ops...)
		if err != nil {
			return nil, err
		}
		for _, r := range resp.Responses {
			for _, kv := range r.GetResponseRange().Kvs {
				out[string(kv.Key)] = kv.Value
			}
		}
		keys = keys[n:]
	}
	return out, nil
}

// First is the first key below a prefix that is not before from; "" if there is none.
func (c *Client) First(ctx context.Context, prefix, from string) (string, error) {
	resp, err := c.txn(ctx, nil, clientv3.OpGet(max(prefix, from), clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(1), clientv3.WithKeysOnly()))
	if err != nil {
		return "", err
	}
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		return string(kv.Key), nil
	}
	return "", nil
}

// List calls do with all below a prefix, in the order of the keys. They are read in pages,
// not all at one revision.
func (c *Client) List(ctx context.Context, prefix string, do func(KV) error) error {
	end := clientv3.GetPrefixRangeEnd(prefix)
	for from := prefix; ; {
		resp, err := c.txn(ctx, nil, clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithLimit(batch)))
		if err != nil {
			return err
		}
		page := resp.Responses[0].GetResponseRange()
		for _, kv := range page.Kvs {
			if err := do(KV{string(kv.Key), kv.Value}); err != nil {
				return err
			}
			from = string(kv.Key) + "\x00"
		}
		if !page.More {
			return nil
		}
	}
}

// Put writes keys, in as many transactions as it takes; with a lease that is not nil they go
// with that.
func (c *Client) Put(ctx context.Context, kvs []KV, l *Lease) error {
	var ops []clientv3.Op
	bytes := 0
	flush := func() error {
		if len(ops) == 0 {
			return nil
		}
		_, err := c.txn(ctx, nil, ops...)
		ops, bytes = nil, 0
		return err
	}
	for _, kv := range kvs {
		if len(ops) == batch || bytes+len(kv.Value) > batchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		ops, bytes = append(ops, put(kv, l)), bytes+len(kv.Value)
	}
	return flush()
}

func put(kv KV, l *Lease) clientv3.Op {
	if l == nil {
		return clientv3.OpPut(kv.Key, string(kv.Value))
	}
	return clientv3.OpPut(kv.Key, string(kv.Value), clientv3.WithLease(clientv3.LeaseID(l.ID)))
}

// Create writes a key unless it is there; made reports whether it did.
func (c *Client) Create(ctx context.Context, kv KV, l *Lease) (made bool, err error) {
	resp, err := c.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(kv.Key), "=", 0)}, put(kv, l))
	return err == nil && resp.Succeeded, err
}

// Delete removes keys; what ends in a slash is all below it.
func (c *Client) Delete(ctx context.Context, keys ...string) error {
	ops := make([]clientv3.Op, len(keys))
	for i, k := range keys {
		if ops[i] = clientv3.OpDelete(k); strings.HasSuffix(k, "/") {
			ops[i] = clientv3.OpDelete(k, clientv3.WithPrefix())
		}
	}
	_, err := c.txn(ctx, nil, ops...)
	return err
}

// Lease is kept alive until its end, or until it is lost.
type Lease struct {
	ID   int64
	lost chan struct{}
	end  func()
}

// ErrLease: a lease was lost, and with it what had it.
var ErrLease = errors.New("etcd was not reached for too long: what was asked of agents is gone")

// Lost is closed when the lease has ended before it was to.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// End ends the lease: what has it is removed.
func (l *Lease) End() { l.end() }

// Grant makes a lease that outlives us by a time, in whole seconds. It does not end with ctx.
func (c *Client) Grant(ctx context.Context, ttl time.Duration) (*Lease, error) {
	asking, cancel := context.WithTimeout(ctx, c.config.OpTimeout)
	defer cancel()
	got, err := c.lease.Grant(asking, int64(ttl/time.Second))
	if err != nil {
		return nil, c.config.error(err)
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	alive, err := c.lease.KeepAlive(keeping, got.ID)
	if err != nil {
		stop()
		return nil, c.config.error(err)
	}
	l := &Lease{ID: int64(got.ID), lost: make(chan struct{})}
	var running sync.WaitGroup
	running.Go(func() {
		for range alive { // until it is stopped or lost
		}
		close(l.lost)
	})
	l.end = func() {
		stop()
		running.Wait()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.config.OpTimeout)
		defer cancel()
		_, _ = c.lease.Revoke(ctx, got.ID) // else it ends by itself
	}
	return l, nil
}
