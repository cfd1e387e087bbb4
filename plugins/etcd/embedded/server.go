package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"google.golang.org/grpc"

	"github.com/plumb-net/plumb/plugins/etcd/zaplog"
	"github.com/plumb-net/plumb/plugins/private"
)

// The limits of the server.
const (
	// MaxTxnOps bounds the operations of one transaction. etcd's own 128 is
	// made for clusters; here a whole apply should be one transaction.
	MaxTxnOps = 10_000
	// MaxRequestBytes bounds one request. It is the most that etcd recommends.
	MaxRequestBytes = 10 << 20
	// keepRevisions is how much history stays before compaction: enough for
	// any watch of ours, which needs seconds. One revision may hold thousands of keys, and
	// all of the history is read at a start.
	keepRevisions = "1000"
	defaultQuota  = 2 << 30
	// snapshotEntries is how many writes are in the log before a snapshot: a start reads
	// those behind the last one. A single member has nobody to send older ones to, so they
	// need not stay in memory either.
	snapshotEntries = 500
	// segmentBytes is what a file of the log takes on disk from its first byte on. One that is
	// there whole is read whole at a start; etcd's own are of 64 MB.
	segmentBytes = 16 << 20
	// oldFiles is how many files of the log and snapshots stay that no start needs.
	oldFiles = 2
)

// Config of a server.
type Config struct {
	// Dir holds the data; it is made if absent.
	Dir string
	// Socket is the path of the unix socket for clients of other processes.
	Socket string
	// QuotaBytes bounds the data on disk; beyond it writes are refused and
	// an alarm is raised. Default 2 GiB.
	QuotaBytes int64
	// Log gets what etcd says; nil drops it.
	Log *slog.Logger `json:"-"`
	// Again: the last start failed and said why, so this one says it for
	// debugging only, until it is ready.
	Again bool `json:"-"`
	// StuckAfter is how long a server that has loaded its data may make no progress
	// before it is ready. Default 10 s.
	StuckAfter time.Duration
}

// Server is a running etcd.
type Server struct {
	etcd *embed.Etcd
	grpc *grpc.Server
	lock *private.Lock
	// served is closed when the socket is no longer served.
	served chan struct{}
}

// setSegments sets what etcd has as a variable of the process.
var setSegments = sync.OnceFunc(func() { wal.SegmentSizeBytes = segmentBytes })

// Start starts a server in this process and returns when it is ready.
func Start(ctx context.Context, c Config) (*Server, error) {
	setSegments()
	if err := private.CheckSocket(c.Socket); err != nil {
		return nil, err
	}
	if err := private.Make(c.Dir); err != nil {
		return nil, fmt.Errorf("embedded etcd: %w", err)
	}
	lock, err := lockDir(ctx, c.Dir)
	if err != nil {
		return nil, err
	}
	// The socket comes first: it is the cheaper of the two to fail.
	l, err := private.Listen(c.Socket)
	if err != nil {
		lock.Release()
		return nil, fmt.Errorf("embedded etcd: %w", err)
	}
	if c.Log != nil {
		l.Refused = func(uid int, err error) {
			c.Log.Warn("a connection to etcd was refused: only root and the agent's user may connect", "uid", uid, "error", err)
		}
		l.Restored = func(err error) {
			if err != nil {
				c.Log.Error("etcd says", "message", "the socket was removed and cannot be created again", "socket", c.Socket, "error", err)
				return
			}
			c.Log.Warn("etcd says", "message", "the socket was removed and has been created again", "socket", c.Socket)
		}
	}
	e, err := bootstrapped(ctx, c)
	if err != nil {
		l.Close()
		lock.Release()
		return nil, fmt.Errorf("embedded etcd in %s: %w", c.Dir, err)
	}
	s := &Server{etcd: e, grpc: v3rpc.Server(e.Server, nil, nil), lock: lock, served: make(chan struct{})}
	go s.serve(l)
	return s, nil
}

func etcdConfig(c Config, dir string) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name = "plumb"
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.Dir = dir
	cfg.ListenPeerUrls = nil
	cfg.ListenClientUrls = nil
	cfg.AdvertiseClientUrls = []url.URL{{Scheme: "unix", Path: c.Socket}}
	cfg.EnableGRPCGateway = false
	// The only member elects itself within one election timeout, and has nobody to send
	// heartbeats to: a tick only wakes it.
	cfg.TickMs, cfg.ElectionMs = 50, 250
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = snapshotEntries, 1
	cfg.MaxSnapFiles, cfg.MaxWalFiles = oldFiles, oldFiles
	cfg.MaxTxnOps = MaxTxnOps
	cfg.MaxRequestBytes = MaxRequestBytes
	cfg.AutoCompactionMode = embed.CompactorModeRevision
	cfg.AutoCompactionRetention = keepRevisions
	cfg.QuotaBackendBytes = c.QuotaBytes
	if c.QuotaBytes == 0 {
		cfg.QuotaBackendBytes = defaultQuota
	}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zaplog.New(c.Log))
	return cfg
}

// bootstrapped starts etcd on its data. New data is made aside and moved into
// place when it is whole: an etcd that is killed while it makes its data never
// becomes ready again.
func bootstrapped(ctx context.Context, c Config) (*embed.Etcd, error) {
	member, aside := filepath.Join(c.Dir, "member"), filepath.Join(c.Dir, "new")
	if _, err := os.Stat(member); errors.Is(err, fs.ErrNotExist) {
		if err := os.RemoveAll(aside); err != nil {
			return nil, err
		}
		cfg := etcdConfig(c, aside)
		// Who the members are is in the snapshot then. While it is in the log only, a start
		// reads it too late to elect itself at once, and waits for 0.25 to 0.5 s.
		cfg.SnapshotCount = 1
		e, err := startEtcd(ctx, c, cfg)
		if err != nil {
			return nil, fmt.Errorf("new data: %w", err)
		}
		e.Close()
		if err := os.Rename(filepath.Join(aside, "member"), member); err != nil {
			return nil, err
		}
		if err := syncDir(c.Dir); err != nil {
			return nil, err
		}
		os.Remove(aside) // empty now; if it stays, it harms nothing
	} else if err != nil {
		return nil, err
	}
	return startEtcd(ctx, c, etcdConfig(c, c.Dir))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// startEtcd starts etcd and waits until it is ready.
func startEtcd(ctx context.Context, c Config, cfg *embed.Config) (*embed.Etcd, error) {
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	if err := ready(ctx, e, cmp.Or(c.StuckAfter, defaultStuckAfter)); err != nil {
		abandon(e)
		return nil, err
	}
	return e, nil
}

// abandon closes a server that did not become ready. With damaged data closing
// may never end either; then it is left to the end of the process.
func abandon(e *embed.Etcd) {
	closed := make(chan struct{})
	go func() {
		e.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closeTime):
	}
}

// defaultStuckAfter is long: the only member elects itself in 0.3 s.
const defaultStuckAfter = 10 * time.Second

// ready waits until the server is ready. Damage can keep it from that for ever.
func ready(ctx context.Context, e *embed.Etcd, stuckAfter time.Duration) error {
	tick := time.NewTicker(stuckAfter / 10)
	defer tick.Stop()
	applied, moved := e.Server.AppliedIndex(), time.Now()
	for {
		select {
		case <-e.Server.ReadyNotify():
			return nil
		case err := <-e.Err():
			return err
		case <-e.Server.StopNotify():
			return errStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		// One that is stuck may still try: to say who it is, every five seconds.
		if now := e.Server.AppliedIndex(); now > applied+100 {
			applied, moved = now, time.Now()
		}
		if time.Since(moved) > stuckAfter {
			return fmt.Errorf("it is not ready after %s and makes no progress: the log in member/wal and the data in member/snap do not belong together", stuckAfter)
		}
	}
}

func (s *Server) serve(l net.Listener) {
	defer close(s.served)
	// Serve ends when Close stops it; there is nobody to tell of its error.
	_ = s.grpc.Serve(l)
}

// Done is closed when etcd stopped, by Close or by itself.
func (s *Server) Done() <-chan struct{} { return s.etcd.Server.StopNotify() }

// Close stops the server. It does not wait for clients.
func (s *Server) Close() {
	s.grpc.Stop()
	<-s.served
	s.etcd.Close()
	s.lock.Release()
}
