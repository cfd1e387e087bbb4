// Package dial makes connections to an etcd cluster, by endpoints, files of TLS, and a user.
// It knows no server, so that a client of etcd need not carry one.
package dial

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"

	"github.com/plumb-net/plumb/plugins/etcd/zaplog"
	"github.com/plumb-net/plumb/plugins/tlsfiles"
)

// Config says which cluster is meant, and as whom.
type Config struct {
	// Endpoints of the cluster.
	Endpoints []string
	// CAFile, CertFile and KeyFile are for TLS. They are followed when they
	// change; a new one that is damaged leaves the former in use.
	CAFile, CertFile, KeyFile string
	// User and PasswordFile are for the cluster's own authentication.
	User, PasswordFile string
	// Log may be nil.
	Log *slog.Logger
	// OpTimeout bounds one request, RetryMax is the longest pause between two attempts to
	// connect. RereadEvery is how often the files of TLS are read at most. 0: a default.
	OpTimeout, RetryMax, RereadEvery time.Duration
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.OpTimeout == 0 {
		c.OpTimeout = 5 * time.Second
	}
	if c.RetryMax == 0 {
		c.RetryMax = 3 * time.Second
	}
	return c
}

// Check refuses what does not go together.
func (c Config) Check() error {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return fmt.Errorf("etcd: a certificate needs its key and the key its certificate")
	}
	if (c.User == "") != (c.PasswordFile == "") {
		return fmt.Errorf("etcd: a user needs a password file and the file a user")
	}
	for _, e := range c.Endpoints {
		if err := c.checkEndpoint(e); err != nil {
			return err
		}
	}
	return nil
}

// checkEndpoint refuses what the client would take and misunderstand: above
// all http:// beside TLS files, which it would serve in the clear.
func (c Config) checkEndpoint(e string) error {
	if !strings.Contains(e, "://") {
		return nil
	}
	u, err := url.Parse(e)
	if err != nil {
		return fmt.Errorf("etcd endpoint %q: %w", e, err)
	}
	switch u.Scheme {
	case "https", "unix", "unixs":
		return nil
	case "http":
		if c.TLS() {
			return fmt.Errorf("etcd endpoint %s: TLS files are given, but http:// is not encrypted; write https://", e)
		}
		return nil
	}
	return fmt.Errorf("etcd endpoint %s: the scheme must be http, https or unix", e)
}

// TLS reports whether there are files of TLS.
func (c Config) TLS() bool { return c.CAFile != "" || c.CertFile != "" }

// Open makes a client of the cluster; files are those of [OpenTLS]. It does not wait for the
// cluster. With a user, every call on its connection carries a token, and a request that is
// refused for its token is sent again with a new one. A stream is not, but the next one gets
// a new token, too.
func Open(ctx context.Context, c Config, files *tlsfiles.Source) (*clientv3.Client, error) {
	return clientv3.New(c.withDefaults().client(ctx, files))
}

// Unbounded lets answers be as large as the store makes them.
func Unbounded() grpc.DialOption {
	return grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32))
}

func (c Config) client(ctx context.Context, files *tlsfiles.Source) clientv3.Config {
	cfg := clientv3.Config{
		Context:              ctx,
		Endpoints:            withoutUsers(c.Endpoints),
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		Logger:               zaplog.New(slog.New(asides{c.Log.Handler()})),
		DialOptions: []grpc.DialOption{
			Unbounded(),
			// gRPC's own backoff grows to two minutes.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           grpcbackoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: c.RetryMax},
				MinConnectTimeout: c.OpTimeout,
			}),
		},
	}
	if files != nil {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithTransportCredentials(handshakes{files}))
	}
	if c.User != "" {
		t := &tokens{user: c.User, passwordFile: c.PasswordFile, timeout: c.OpTimeout}
		t.attach(&cfg)
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

// withoutUsers returns the endpoints without users and passwords, which are not used: the
// client library writes its endpoints into its log.
func withoutUsers(endpoints []string) (out []string) {
	for _, e := range endpoints {
		scheme, rest, found := strings.Cut(e, "://")
		if !found {
			scheme, rest = "", e
		}
		if scheme != "unix" && scheme != "unixs" {
			host, path, slash := strings.Cut(rest, "/")
			if rest = host[strings.LastIndexByte(host, '@')+1:]; slash {
				rest += "/" + path
			}
		}
		if found {
			rest = scheme + "://" + rest
		}
		out = append(out, rest)
	}
	return out
}

// withoutBareUsers is withoutUsers for endpoints without a scheme; [safetext.URLs] masks the
// passwords of the others.
func withoutBareUsers(endpoints []string) (out []string) {
	for _, e := range endpoints {
		if !strings.Contains(e, "://") {
			e = withoutUsers([]string{e})[0]
		}
		out = append(out, e)
	}
	return out
}

// maxPassword is far more than a password has, in bytes.
const maxPassword = 4096

// readPassword reads a regular file; it does not wait for the writer of a pipe. The file may
// be a symbolic link, as those of mounted secrets are.
func readPassword(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", file)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxPassword))
}

// CheckPassword reports why a file with a password cannot be read.
func CheckPassword(file string) error {
	_, err := readPassword(file)
	return err
}
