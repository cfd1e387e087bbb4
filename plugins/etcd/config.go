package etcd

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/plumb-net/plumb/plugins/etcd/dial"
	"github.com/plumb-net/plumb/plugins/private"
	"github.com/plumb-net/plumb/plugins/tlsfiles"
)

// Config says which store to use and in whose name.
type Config struct {
	// Label of the agent: all its keys are below /plumb/<label>/.
	Label string
	// StateDir keeps the agent's UUID, what is known of the store and, when
	// the store is embedded, its data. RunDir gets the socket etcd.sock of
	// an embedded store. Both must be absolute.
	StateDir, RunDir string

	// Endpoints of an external cluster; none means the embedded server.
	Endpoints []string
	// CAFile, CertFile and KeyFile are for TLS. They are followed when they
	// change; a new one that is damaged leaves the former in use.
	CAFile, CertFile, KeyFile string
	// User and PasswordFile are for the cluster's own authentication.
	User, PasswordFile string
	// MaxTxnOps is the most operations that the external cluster allows in a
	// transaction. Default 128, which is etcd's.
	MaxTxnOps int
	// QuotaBytes bounds the data of the embedded server. Default 2 GiB.
	QuotaBytes int64

	// Early is the embedded server, if it was started before; else the plugin starts it.
	Early *Early

	// Version and Incarnation of the agent are written into presence, the
	// incarnation also into every status. Default incarnation: random.
	Version, Incarnation string
	// Labels of the agent, for who chooses among many.
	Labels map[string]string
	// Log may be nil.
	Log *slog.Logger

	// files are those of TLS, nil without any.
	files *tlsfiles.Source
	tune  tuning
}

// tuning holds what only tests change.
type tuning struct {
	// opTimeout bounds one request to the store.
	opTimeout time.Duration
	// retryMin and retryMax bound the backoff between sessions.
	retryMin, retryMax time.Duration
	// progressEvery is how often the watch is asked for a sign of life, and
	// stallAfter how long it may give none.
	progressEvery, stallAfter time.Duration
	// auditEvery is how often the view is compared with the store. It costs
	// the store a walk over all keys.
	auditEvery time.Duration
	// saveEvery is how often the last revision seen is written to disk.
	saveEvery time.Duration
	// leaseTTL is how long presence outlives the agent.
	leaseTTL time.Duration
	// statusWindow is the least time between two writes of one status, and
	// statusGather how long the first change waits for company.
	// statusMass is the pause between two writes of many, while intent is carried out.
	statusWindow, statusGather, statusMass time.Duration
	// statusCalm is how long a list of many statuses waits for intent to be carried out.
	statusCalm time.Duration
	// healthEvery is how often the store is asked for alarms and its size.
	healthEvery time.Duration
	// restartMax is the longest pause between two starts of the embedded
	// store, and slowStart after what time its start is spoken of.
	restartMax, slowStart time.Duration
	// stuckAfter is how long its start may make no progress; 0 is the store's own default.
	stuckAfter time.Duration
	// rereadEvery is how often the files of TLS are read at most.
	rereadEvery time.Duration
	// pageBytes is how much a page of a list should weigh.
	pageBytes int
	// keptAuthors is how many records of who wrote intent are kept whatever became of it.
	keptAuthors int
}

func (t *tuning) defaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&t.opTimeout, 5*time.Second)
	set(&t.retryMin, 100*time.Millisecond)
	set(&t.retryMax, 3*time.Second)
	set(&t.progressEvery, 2*time.Second)
	set(&t.stallAfter, 5*time.Second)
	set(&t.auditEvery, 5*time.Minute)
	set(&t.saveEvery, 5*time.Second)
	set(&t.leaseTTL, 10*time.Second)
	set(&t.statusWindow, 100*time.Millisecond)
	set(&t.statusGather, 10*time.Millisecond)
	set(&t.statusMass, 500*time.Millisecond)
	set(&t.statusCalm, 5*time.Second)
	set(&t.healthEvery, 10*time.Second)
	set(&t.restartMax, 30*time.Second)
	set(&t.slowStart, 5*time.Second)
	if t.keptAuthors == 0 {
		t.keptAuthors = 1000
	}
	if t.pageBytes == 0 {
		t.pageBytes = 4 << 20
	}
}

// maxLabel is the longest label.
const maxLabel = 63

// withDefaults fills in and checks the configuration.
func (c Config) withDefaults() (Config, error) {
	if !regexp.MustCompile(`^[a-zA-Z0-9._-]+$`).MatchString(c.Label) || len(c.Label) > maxLabel {
		return c, fmt.Errorf("label %q: a label has 1 to %d letters, digits and . _ -", c.Label, maxLabel)
	}
	if !filepath.IsAbs(c.StateDir) {
		return c, fmt.Errorf("state directory %q: the path must be absolute", c.StateDir)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Incarnation == "" {
		c.Incarnation = randomID()
	}
	c.tune.defaults()
	if len(c.Endpoints) == 0 {
		return c, c.checkEmbedded()
	}
	if c.MaxTxnOps == 0 {
		c.MaxTxnOps = 128
	}
	return c, c.cluster().Check()
}

func (c Config) checkEmbedded() error {
	if c.CAFile != "" || c.CertFile != "" || c.KeyFile != "" || c.User != "" {
		return fmt.Errorf("TLS files and a user are for an external etcd; give its endpoints with --etcd")
	}
	return private.CheckSocket(c.socket())
}

// cluster is the external store.
func (c Config) cluster() dial.Config {
	return dial.Config{
		Endpoints: c.Endpoints, CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, User: c.User, PasswordFile: c.PasswordFile,
		Log: c.Log, OpTimeout: c.tune.opTimeout, RetryMax: c.tune.retryMax, RereadEvery: c.tune.rereadEvery,
	}
}

// prefix of all keys of the label.
func (c Config) prefix() string { return "/plumb/" + c.Label + "/" }

func (c Config) socket() string { return filepath.Join(c.RunDir, "etcd.sock") }

// dataDir is where an embedded store has its data.
func (c Config) dataDir() string { return filepath.Join(c.StateDir, "etcd") }

// endpoints for people.
func (c Config) endpoints() string {
	if len(c.Endpoints) == 0 {
		return "unix://" + c.socket()
	}
	return strings.Join(c.Endpoints, ",")
}
