package etcd

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/plumb-net/plumb/scheduler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// binary is Debian's etcd on loopback TCP.
type binary struct {
	t    testing.TB
	path string
	dir  string
	port int
	peer int
	// metrics is the port that says whether it is healthy, without TLS.
	metrics int
	args    []string
	url     string
	cmd     *exec.Cmd
}

// startBinary starts an etcd of its own and waits until it answers.
func startBinary(t testing.TB, args ...string) *binary {
	t.Helper()
	path, err := exec.LookPath("etcd")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("etcd is missing: apt-get install etcd-server")
		}
		t.Skip("etcd is missing: apt-get install etcd-server")
	}
	b := &binary{t: t, path: path, dir: filepath.Join(t.TempDir(), "data"), port: freePort(t), peer: freePort(t), metrics: freePort(t), args: args}
	b.url = fmt.Sprintf("http://127.0.0.1:%d", b.port)
	if strings.Contains(strings.Join(args, " "), "--cert-file") {
		b.url = fmt.Sprintf("https://127.0.0.1:%d", b.port)
	}
	b.start()
	t.Cleanup(b.stop)
	return b
}

func (b *binary) start() {
	b.t.Helper()
	peer := fmt.Sprintf("http://127.0.0.1:%d", b.peer)
	args := append([]string{"--name=t", "--data-dir=" + b.dir, "--listen-client-urls=" + b.url, "--advertise-client-urls=" + b.url,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=t=" + peer,
		fmt.Sprintf("--listen-metrics-urls=http://127.0.0.1:%d", b.metrics), "--heartbeat-interval=10", "--election-timeout=100", "--logger=zap", "--log-outputs=" + filepath.Join(filepath.Dir(b.dir), "log")}, b.args...)
	b.cmd = exec.Command(b.path, args...)
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test that panics stops nothing
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	// Killed before it is ready, a new etcd of 3.4 never becomes so again.
	deadline := time.Now().Add(10 * time.Second)
	for !b.healthy() {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(filepath.Dir(b.dir), "log"))
			b.t.Fatalf("etcd did not start:\n%s", log)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (b *binary) healthy() bool {
	c := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/health", b.metrics))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (b *binary) addr() string { return fmt.Sprintf("127.0.0.1:%d", b.port) }

// stop kills the server, which is also what it must survive.
func (b *binary) stop() {
	if b.cmd == nil {
		return
	}
	b.cmd.Process.Kill()
	b.cmd.Wait()
	b.cmd = nil
}

// wipe empties the store as a careless operator does.
func (b *binary) wipe() {
	b.stop()
	os.RemoveAll(b.dir)
	b.start()
}

// copyData copies the data of a stopped server.
func copyData(t testing.TB, from, to string) {
	t.Helper()
	os.RemoveAll(to)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := filepath.Walk(to, func(p string, i os.FileInfo, err error) error {
		if err == nil && i.IsDir() {
			err = os.Chmod(p, 0o700)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// client is the operator's: the official client, by another way than ours.
func client(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// agent is a plugin that runs.
type agent struct {
	*Plugin
	t    testing.TB
	rec  *recorder
	brd  *board
	cfg  Config
	stop func() error
}

// quick is the timing of tests.
func quick() tuning {
	return tuning{
		opTimeout: 2 * time.Second, retryMin: 10 * time.Millisecond, retryMax: 200 * time.Millisecond,
		progressEvery: 100 * time.Millisecond, stallAfter: time.Second, saveEvery: 20 * time.Millisecond,
		leaseTTL: 2 * time.Second, healthEvery: 200 * time.Millisecond,
	}
}

func config(t testing.TB, endpoints ...string) Config {
	dir := t.TempDir()
	return Config{Label: "h", StateDir: filepath.Join(dir, "state"), RunDir: filepath.Join(dir, "run"), Endpoints: endpoints, tune: quick()}
}

// runAgent runs a plugin until the test ends or stop is called.
func runAgent(t testing.TB, c Config) *agent {
	t.Helper()
	a := newAgent(t, c)
	a.run()
	return a
}

func newAgent(t testing.TB, c Config) *agent {
	t.Helper()
	a := &agent{t: t, rec: newRecorder(), brd: newBoard(), cfg: c}
	p, err := New(c, decodeText, a.rec, a.brd.watch)
	if err != nil {
		t.Fatal(err)
	}
	a.Plugin = p
	return a
}

func (a *agent) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	a.stop = sync.OnceValue(func() error {
		cancel()
		begin := time.Now()
		err := <-done
		if took := time.Since(begin); took > time.Second {
			a.t.Errorf("stopping took %s", took)
		}
		return err
	})
	a.t.Cleanup(func() {
		if err := a.stop(); err != nil {
			a.t.Errorf("Run: %v", err)
		}
	})
}

// ready waits for the first word.
func (a *agent) ready() {
	a.t.Helper()
	a.rec.wait(a.t, "the first word", func(txns []scheduler.Txn) bool { return len(txns) > 0 })
}

// upTo waits until a revision was submitted.
func (a *agent) upTo(rev int64) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := a.Reached(ctx, rev); err != nil {
		a.t.Fatalf("%v\n%s", err, story(a.rec.since(0)))
	}
}

// state waits until health has a state and a reason with the words.
func (a *agent) state(state, words string) {
	a.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		h := a.Health()
		if h.State == state && strings.Contains(h.Reason, words) {
			return
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("health is %s (%s), waited for %s (%s)", h.State, h.Reason, state, words)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// stores are the two kinds of store, each with an operator's client.
func stores(t *testing.T, test func(t *testing.T, c Config, kv func() clientv3.KV)) {
	t.Run("embedded", func(t *testing.T) {
		c := config(t)
		test(t, c, func() clientv3.KV { return client(t, "unix://"+c.socket()) })
	})
	t.Run("external", func(t *testing.T) {
		b := startBinary(t)
		c := config(t, b.url)
		test(t, c, func() clientv3.KV { return client(t, b.url) })
	})
}

const base = "/plumb/h/"

// put writes intent as an operator and returns the revision.
func put(t testing.TB, kv clientv3.KV, key, text string) int64 {
	t.Helper()
	r, err := kv.Put(context.Background(), base+"config/"+key, `"`+text+`"`)
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

func del(t testing.TB, kv clientv3.KV, key string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	r, err := kv.Delete(context.Background(), base+key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}
