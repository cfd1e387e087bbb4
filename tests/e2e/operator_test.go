package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// store is an operator's client, by another way than the agent's.
type store struct {
	t      testing.TB
	prefix string
	*clientv3.Client
}

// operator connects to the host's etcd. It need not run yet.
func operator(t testing.TB, h *host.Host) *store {
	t.Helper()
	soon := grpc.ConnectParams{ // servers come back quickly here
		Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, MaxDelay: 100 * time.Millisecond},
		MinConnectTimeout: time.Second,
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{h.EtcdEndpoint()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(soon)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &store{t, h.ConfigKey(""), c}
}

// commit writes in one transaction; while nobody answers it tries again.
func (s *store) commit(ops ...clientv3.Op) (revision int64) {
	s.t.Helper()
	for end := time.Now().Add(host.Patience); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		r, err := s.Txn(ctx).Then(ops...).Commit()
		cancel()
		switch {
		case err == nil:
			return r.Header.Revision
		case time.Now().After(end):
			s.t.Fatal(err)
		}
	}
}

func (s *store) op(key, value string) clientv3.Op { return clientv3.OpPut(s.prefix+key, value) }

func (s *store) put(key, value string) int64 { s.t.Helper(); return s.commit(s.op(key, value)) }

func (s *store) delete(key string) int64 {
	s.t.Helper()
	return s.commit(clientv3.OpDelete(s.prefix + key))
}

// deleteAll deletes all intent.
func (s *store) deleteAll() int64 {
	s.t.Helper()
	return s.commit(clientv3.OpDelete(s.prefix, clientv3.WithPrefix()))
}

// same is an error with what differs.
func same(before, after string) error {
	if before == after {
		return nil
	}
	return errors.New("it differs:\n" + strings.TrimSpace(host.Diff(before, after)))
}
