package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/plumb-net/plumb/plugins/etcd/embedded"
	"github.com/plumb-net/plumb/plugins/etcd/zaplog"
	"github.com/plumb-net/plumb/plugins/tlsfiles"
)

// link is a connection to a store. It says the same of both kinds of store.
//
// The watch is the bare gRPC one: the client library's watch resumes by itself
// after a cut, also on another store that happens to answer at the same
// address, and then waits silently for revisions that never come.
type link struct {
	kv    clientv3.KV
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
	e := c.embedded()
	e.Again = again
	s, err := embedded.Launch(ctx, e)
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
	return embedded.Config{Dir: c.dataDir(), Socket: c.socket(), QuotaBytes: c.QuotaBytes, Log: c.Log}
}

// dialEmbedded makes a connection to the server beside this process.
func dialEmbedded(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), unbounded())
}

// unbounded lets answers be as large as the store makes them.
func unbounded() grpc.DialOption {
	return grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32))
}

// services is a link by a connection. They are taken from the connection
// itself: those of the client library wait for a lost connection until the
// deadline and then do not say why.
func services(conn grpc.ClientConnInterface) *link {
	return &link{
		kv:    clientv3.NewKVFromKVClient(etcdserverpb.NewKVClient(conn), nil),
		watch: etcdserverpb.NewWatchClient(conn),
		lease: etcdserverpb.NewLeaseClient(conn),
		maint: etcdserverpb.NewMaintenanceClient(conn),
		close: func() {},
	}
}

// defaultRequestBytes is etcd's bound of one request.
const defaultRequestBytes = 3 << 19 // 1.5 MiB

// openExternal makes a client of a cluster. Without a user it does not wait
// for the cluster; with one it must ask for a token.
func openExternal(ctx context.Context, c Config) (*link, error) {
	cfg := clientConfig(ctx, c)
	// A token of our own, not the client's: when its token is no longer
	// valid, the client asks for a new one with the old one attached, which
	// etcd 3.4 refuses, whereupon it asks again, without end.
	var err error
	if cfg.Token, err = token(ctx, c, cfg); err != nil {
		return nil, err
	}
	cli, err := clientv3.New(cfg)
	if err != nil {
		return nil, err
	}
	l := services(cli.ActiveConnection())
	l.maxOps, l.maxBytes = c.MaxTxnOps, defaultRequestBytes
	l.close = func() { cli.Close() }
	return l, nil
}

func clientConfig(ctx context.Context, c Config) clientv3.Config {
	cfg := clientv3.Config{
		Context:              ctx,
		Endpoints:            c.Endpoints,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		Logger:               zaplog.New(slog.New(asides{c.Log.Handler()})),
		DialOptions: []grpc.DialOption{
			unbounded(),
			// gRPC's own backoff grows to two minutes.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           grpcbackoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: c.tune.retryMax},
				MinConnectTimeout: c.tune.opTimeout,
			}),
		},
	}
	if c.files != nil {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithTransportCredentials(handshakes{c.files}))
	}
	return cfg
}

// asides are what the client of etcd says while it tries again and again, with texts and
// addresses of its own: we say once what it comes to.
type asides struct{ slog.Handler }

func (a asides) Enabled(ctx context.Context, _ slog.Level) bool {
	return a.Handler.Enabled(ctx, slog.LevelDebug)
}

func (a asides) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return a.Handler.Handle(ctx, r)
}

func (a asides) WithAttrs(attrs []slog.Attr) slog.Handler { return asides{a.Handler.WithAttrs(attrs)} }

// token asks for the token of the user; none without a user or when the
// cluster does not authenticate.
func token(ctx context.Context, c Config, cfg clientv3.Config) (string, error) {
	if c.User == "" {
		return "", nil
	}
	password, err := os.ReadFile(c.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("etcd password: %w", err)
	}
	cli, err := clientv3.New(cfg)
	if err != nil {
		return "", err
	}
	defer cli.Close()
	auth := etcdserverpb.NewAuthClient(cli.ActiveConnection())
	resp, err := withTimeout(ctx, c.tune, func(ctx context.Context) (*etcdserverpb.AuthenticateResponse, error) {
		return auth.Authenticate(ctx, &etcdserverpb.AuthenticateRequest{
			Name: c.User, Password: strings.TrimRight(string(password), "\r\n")})
	})
	if errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled) {
		return "", nil
	}
	return resp.GetToken(), err
}

// openTLS reads the files of TLS; nil without any: https:// then trusts the system's roots.
func openTLS(c Config) (*tlsfiles.Source, error) {
	if !c.tls() {
		return nil, nil
	}
	return tlsfiles.Open(tlsfiles.Files{Cert: c.CertFile, Key: c.KeyFile, CA: c.CAFile},
		tlsfiles.Options{Whose: "etcd", Read: os.ReadFile, ReadKey: os.ReadFile, Every: c.tune.rereadEvery, Log: c.Log})
}

// handshakes are TLS with what the files hold when the handshake is made. A configuration
// of crypto/tls could follow the certificate, but not the authorities.
type handshakes struct{ files *tlsfiles.Source }

func (h handshakes) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(h.files.Client()).ClientHandshake(ctx, authority, conn)
}

func (handshakes) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("etcd: this is a client")
}

func (handshakes) Info() credentials.ProtocolInfo {
	return credentials.NewTLS(nil).Info()
}

func (h handshakes) Clone() credentials.TransportCredentials { return h }

func (handshakes) OverrideServerName(string) error {
	return errors.New("etcd: the server's name is that of its endpoint")
}
