package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/plumb-net/plumb/plugins/etcd/dial"
	"github.com/plumb-net/plumb/plugins/etcd/embedded"
)

// link is a connection to a store. It says the same of both kinds of store.
//
// The watch is the bare gRPC one: the client library's watch resumes by itself
// after a cut, also on another store that happens to answer at the same
// address, and then waits silently for revisions that never come.
type link struct {
	kv    clientv3.KV
	store etcdserverpb.KVClient // the same, for requests that are large
	watch etcdserverpb.WatchClient
	lease etcdserverpb.LeaseClient
	maint etcdserverpb.MaintenanceClient

	maxOps, maxBytes int
	// gone is closed when the store has ended, and end says why; nil means
	// that it cannot.
	gone  <-chan struct{}
	end   func() error
	close func()
}

// openEmbedded starts the server beside this process, again if the last start
// failed.
func openEmbedded(ctx context.Context, c Config, again bool) (*link, error) {
	s, early, err := c.Early.take(ctx)
	if !early {
		e := c.embedded()
		e.Again = again
		s, err = embedded.Launch(ctx, e)
	}
	if err != nil {
		return nil, err
	}
	conn, err := dialEmbedded(c.socket())
	if err != nil {
		s.Close()
		return nil, err
	}
	l := services(conn)
	l.maxOps, l.maxBytes = embedded.MaxTxnOps, embedded.MaxRequestBytes
	l.gone = s.Done()
	l.close = func() {
		conn.Close()
		s.Close()
	}
	l.end = s.Err
	return l, nil
}

func (c Config) embedded() embedded.Config {
	return embedded.Config{Dir: c.dataDir(), Socket: c.socket(), QuotaBytes: c.QuotaBytes, Log: c.Log, StuckAfter: c.tune.stuckAfter}
}

// dialEmbedded makes a connection to the server beside this process.
func dialEmbedded(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), dial.Unbounded())
}

// services is a link by a connection. They are taken from the connection
// itself: those of the client library wait for a lost connection until the
// deadline and then do not say why.
func services(conn grpc.ClientConnInterface) *link {
	store := etcdserverpb.NewKVClient(conn)
	return &link{
		kv:    clientv3.NewKVFromKVClient(store, nil),
		store: store,
		watch: etcdserverpb.NewWatchClient(conn),
		lease: etcdserverpb.NewLeaseClient(conn),
		maint: etcdserverpb.NewMaintenanceClient(conn),
		close: func() {},
	}
}

// defaultRequestBytes is etcd's bound of one request.
const defaultRequestBytes = 3 << 19 // 1.5 MiB

// openExternal makes a connection to a cluster.
func openExternal(ctx context.Context, c Config) (*link, error) {
	cli, err := dial.Open(ctx, c.cluster(), c.files)
	if err != nil {
		return nil, err
	}
	l := services(cli.ActiveConnection())
	l.maxOps, l.maxBytes = c.MaxTxnOps, defaultRequestBytes
	l.close = func() { cli.Close() }
	return l, nil
}
