package e2e

import (
	"context"
	"errors"
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
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// etcd is Debian's server on loopback TCP, outside of the agent.
type etcd struct {
	t       testing.TB
	dir     string
	client  int // ports
	peer    int
	metrics int
	cmd     *exec.Cmd
}

// startEtcd starts a server that ends with the test.
func startEtcd(t testing.TB) *etcd {
	t.Helper()
	if _, err := exec.LookPath("etcd"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("etcd is missing: apt-get install etcd-server")
		}
		t.Skip("etcd is missing: apt-get install etcd-server")
	}
	e := &etcd{t: t, dir: filepath.Join(t.TempDir(), "data"), client: freePort(t), peer: freePort(t), metrics: freePort(t)}
	t.Cleanup(e.stop)
	e.start()
	return e
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

func (e *etcd) addr() string { return fmt.Sprintf("127.0.0.1:%d", e.client) }

func (e *etcd) url() string { return "http://" + e.addr() }

// start starts it with the data that is there and waits until it serves.
func (e *etcd) start() {
	e.t.Helper()
	peer := fmt.Sprintf("http://127.0.0.1:%d", e.peer)
	log := filepath.Join(filepath.Dir(e.dir), "etcd.log")
	e.cmd = exec.Command("etcd", "--name=t", "--data-dir="+e.dir,
		"--listen-client-urls="+e.url(), "--advertise-client-urls="+e.url(),
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=t="+peer,
		fmt.Sprintf("--listen-metrics-urls=http://127.0.0.1:%d", e.metrics),
		"--heartbeat-interval=10", "--election-timeout=100", "--logger=zap", "--log-outputs="+log)
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	for end := time.Now().Add(host.Patience); !e.healthy(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			text, _ := os.ReadFile(log)
			e.t.Fatalf("etcd does not start:\n%s", text)
		}
	}
}

func (e *etcd) healthy() bool {
	c := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/health", e.metrics))
	if err != nil {
		return false
	}
	r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// stop kills the server, which it must survive.
func (e *etcd) stop() {
	if e.cmd != nil {
		_ = e.cmd.Process.Kill()
		_ = e.cmd.Wait()
		e.cmd = nil
	}
}

// wipe empties the store as a careless operator does.
func (e *etcd) wipe() {
	e.t.Helper()
	e.stop()
	if err := os.RemoveAll(e.dir); err != nil {
		e.t.Fatal(err)
	}
	e.start()
}

// keep stops the server and copies its data; back puts the copy in place of
// what came later.
func (e *etcd) keep() (back func()) {
	e.t.Helper()
	copied := filepath.Join(e.t.TempDir(), "old")
	e.stop()
	e.copy(copied, e.dir)
	e.start()
	return func() {
		e.t.Helper()
		e.stop()
		e.copy(e.dir, copied)
		e.start()
	}
}

func (e *etcd) copy(to, from string) {
	e.t.Helper()
	err := os.RemoveAll(to)
	if err == nil {
		err = os.CopyFS(to, os.DirFS(from))
	}
	if err == nil {
		err = filepath.WalkDir(to, func(path string, f os.DirEntry, err error) error {
			if err == nil && f.IsDir() {
				err = os.Chmod(path, 0o700)
			}
			return err
		})
	}
	if err != nil {
		e.t.Fatal(err)
	}
}

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

// proxy stands between agent and server, and can be cut.
type proxy struct {
	l    net.Listener
	to   string
	done sync.WaitGroup

	mu    sync.Mutex // guards what follows
	conns map[net.Conn]bool
	off   bool
}

func startProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, to: to, conns: map[net.Conn]bool{}}
	p.done.Go(p.serve)
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.done.Wait()
	})
	return p
}

func (p *proxy) url() string { return "http://" + p.l.Addr().String() }

func (p *proxy) serve() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil || !p.join(in, out) {
			in.Close()
			continue
		}
		p.done.Go(func() { pass(out, in) })
		p.done.Go(func() { pass(in, out) })
	}
}

func (p *proxy) join(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.off {
			c.Close()
		}
		p.conns[c] = true
	}
	return !p.off
}

func pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// cut ends all connections and lets no new one through until mend.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = true
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = false
}

// same is an error with what differs.
func same(before, after string) error {
	if before == after {
		return nil
	}
	return errors.New("it differs:\n" + strings.TrimSpace(host.Diff(before, after)))
}
