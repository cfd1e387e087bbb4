package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/etcd/dial"
	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
)

// restarted is a server that a test stops and starts again with its data.
type restarted interface {
	URL() string
	Start()
	Stop()
}

// current is an etcd of the release of the module, in this process. It checks the tokens of
// keep-alives of leases too, and refuses a watch with a reason of its own.
type current struct {
	t    *testing.T
	cfg  *embed.Config
	etcd *embed.Etcd
}

func startCurrent(t *testing.T, token string, ttl uint) *current {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	cfg := embed.NewConfig()
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.Dir = t.TempDir()
	cfg.ListenPeerUrls = nil
	cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: l.Addr().String()}}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.TickMs, cfg.ElectionMs = 50, 250
	cfg.AuthToken, cfg.AuthTokenTTL, cfg.BcryptCost = token, ttl, 4
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	s := &current{t: t, cfg: cfg}
	t.Cleanup(s.Stop)
	s.Start()
	return s
}

func (s *current) URL() string { return s.cfg.ListenClientUrls[0].String() }

func (s *current) Start() {
	s.t.Helper()
	e, err := embed.StartEtcd(s.cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	<-e.Server.ReadyNotify()
	s.etcd = e
}

func (s *current) Stop() {
	if s.etcd != nil {
		s.etcd.Close()
		s.etcd = nil
	}
}

// cheap is the setting of an etcd that checks passwords quickly.
const cheap = "--bcrypt-cost=4"

// jwtOf2s is the setting of an etcd whose tokens are valid for 2 s, whether they are used or not.
func jwtOf2s(t *testing.T) string {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("a key to sign tokens with"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "jwt,sign-method=HS256,ttl=2s,priv-key=" + key
}

// TestTokensExpire: the agent stays ready while its token expires again and again, and lists
// the store once. It authenticates again after a restart of the store, and reports a password
// that is no longer right.
func TestTokensExpire(t *testing.T) {
	jwt := jwtOf2s(t)
	busy := quick()
	busy.opTimeout, busy.leaseTTL = 10*time.Second, 6*time.Second // the host may be under load
	// A simple token expires when it is not used for 1 to 2 s.
	rare := busy
	rare.leaseTTL, rare.healthEvery = 30*time.Second, time.Minute
	for _, test := range []struct {
		name  string
		start func(t *testing.T) restarted
		tune  tuning
		pause time.Duration // between two writes
	}{
		{"jwt in etcd of Debian", func(t *testing.T) restarted { return etcdtest.Start(t, "--auth-token="+jwt, cheap) }, busy, 20 * time.Millisecond},
		{"jwt in current etcd", func(t *testing.T) restarted { return startCurrent(t, jwt, 300) }, busy, 20 * time.Millisecond},
		{"simple in etcd of Debian", func(t *testing.T) restarted { return etcdtest.Start(t, "--auth-token-ttl=1", cheap) }, rare, 2500 * time.Millisecond},
		{"simple in current etcd", func(t *testing.T) restarted { return startCurrent(t, "simple", 1) }, rare, 2500 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			b := test.start(t)
			login := withUsers(t, b.URL())
			c := config(t, b.URL())
			c.tune = test.tune
			password := c.asAgent(t)
			password("first")
			log := new(lockedBuffer)
			c.Log = slog.New(slog.NewTextHandler(log, nil))
			a := runAgent(t, c)
			a.ready()
			a.state(healthOK, "")

			stop, said := a.staysReady(), log.String() // that the password is not encrypted
			for end, n := time.Now().Add(8*time.Second), 0; time.Now().Before(end); n++ {
				time.Sleep(test.pause)
				a.writes("route/a", fmt.Sprint(n))
			}
			stop()
			if s := a.sessions(); s != 1 {
				t.Errorf("%d sessions, the last ended because %q", s, a.source.standingFacts().ended)
			}
			if now := log.String(); now != said {
				t.Errorf("the log has grown:\n%s", now)
			}

			b.Stop()
			a.state(healthDown, "")
			b.Start()
			a.state(healthOK, "")
			a.writes("route/b", "1")
			if now := log.String(); strings.Contains(now, "auth token") || strings.Contains(now, "permission denied") {
				t.Errorf("the log tells of a token after a restart:\n%s", now)
			}

			if _, err := login().UserChangePassword(t.Context(), "agent", "second"); err != nil {
				t.Fatal(err)
			}
			if test.tune == busy { // else nothing is to be asked of the store for long
				a.state(healthDegraded, "authentication failed")
			}
			if _, err := a.Revision(t.Context()); err == nil {
				t.Error("the former password still counts")
			}
			password("second")
			a.writes("route/b", "2")
			a.state(healthOK, "")
		})
	}
}

// writes writes intent through the agent and waits until it was submitted.
func (a *agent) writes(key, text string) {
	a.t.Helper()
	rev, err := a.Write(context.Background(), []models.Write{{Key: "config/" + key, Value: []byte(`"` + text + `"`)}})
	if err != nil {
		a.t.Fatal(err)
	}
	a.upTo(rev)
}

// staysReady reports every state that is not ok until stop.
func (a *agent) staysReady() (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for was := ""; ; {
			h := a.Health()
			if is := h.State + ": " + h.Reason; h.State != healthOK && is != was {
				a.t.Errorf("not ready: %s", is)
				was = is
			}
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() { close(ended); <-done }
}

// TestLeasesOutliveTokens: a lease of a client is kept alive although its token expires.
func TestLeasesOutliveTokens(t *testing.T) {
	b := startCurrent(t, jwtOf2s(t), 300)
	withUsers(t, b.URL())
	c := config(t, b.URL())
	c.asAgent(t)("first")
	d, err := dial.Connect(t.Context(), c.cluster())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	lease, err := d.Grant(t.Context(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.End()
	if err := d.Put(t.Context(), []dial.KV{{Key: base + "claim", Value: []byte("1")}}, lease); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lease.Lost():
		t.Error("the lease is lost")
	case <-time.After(9 * time.Second):
	}
	if got, err := d.Get(t.Context(), base+"claim"); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}
