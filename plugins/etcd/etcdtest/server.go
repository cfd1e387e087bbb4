// Package etcdtest runs Debian's etcd for tests, on loopback, and a proxy to cut the
// way to it.
package etcdtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// patience bounds the start of a server.
const patience = 30 * time.Second

// Server is an etcd that lasts no longer than its test. Its methods are for the
// goroutine of the test.
type Server struct {
	t       testing.TB
	dir     string // of its own, with data and log
	scheme  string
	client  int // ports, the same after each start
	peer    int
	metrics int // says whether it is healthy, without TLS
	args    []string
	cmd     *exec.Cmd
}

// Start starts a server, with args besides those that it needs, and waits until it
// serves. With --cert-file among them clients have to speak TLS.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("etcd"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("etcd is missing: apt-get install etcd-server")
		}
		t.Skip("etcd is missing: apt-get install etcd-server")
	}
	s := &Server{t: t, dir: t.TempDir(), scheme: "http", client: Port(t), peer: Port(t), metrics: Port(t), args: args}
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--cert-file") }) {
		s.scheme = "https"
	}
	t.Cleanup(s.Stop)
	s.Start()
	return s
}

var (
	portsMu sync.Mutex
	ports   = map[int]bool{}
)

// Port returns a free port that nobody takes while the server is down: it is below
// those that the kernel hands out by itself (ip_local_port_range, from 32768).
func Port(t testing.TB) int {
	t.Helper()
	portsMu.Lock()
	defer portsMu.Unlock()
	for range 1000 {
		p := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			continue
		}
		l.Close()
		if !ports[p] {
			ports[p] = true
			return p
		}
	}
	t.Fatal("no port is free between 20000 and 32000")
	return 0
}

// Addr is host and port for clients.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.client) }

// URL is the endpoint for clients.
func (s *Server) URL() string { return s.scheme + "://" + s.Addr() }

// Start starts it with the data that is there and waits until it serves.
func (s *Server) Start() {
	s.t.Helper()
	peer := fmt.Sprintf("http://127.0.0.1:%d", s.peer)
	log := filepath.Join(s.dir, "log")
	s.cmd = exec.Command("etcd", append([]string{"--name=t", "--data-dir=" + s.data(),
		"--listen-client-urls=" + s.URL(), "--advertise-client-urls=" + s.URL(),
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=t=" + peer,
		fmt.Sprintf("--listen-metrics-urls=http://127.0.0.1:%d", s.metrics),
		"--heartbeat-interval=10", "--election-timeout=100", "--logger=zap", "--log-outputs=" + log}, s.args...)...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test that panics stops nothing
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	// Killed before it is ready, a new etcd of 3.4 never becomes so again.
	for end := time.Now().Add(patience); !s.healthy(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			text, _ := os.ReadFile(log)
			s.t.Fatalf("etcd does not start:\n%s", text)
		}
	}
}

func (s *Server) healthy() bool {
	c := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/health", s.metrics))
	if err != nil {
		return false
	}
	r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// Stop kills the server, which it must survive.
func (s *Server) Stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Wipe empties the store as a careless operator does.
func (s *Server) Wipe() {
	s.t.Helper()
	s.Stop()
	if err := os.RemoveAll(s.data()); err != nil {
		s.t.Fatal(err)
	}
	s.Start()
}

// Keep stops the server, copies its data and starts it again; back puts the copy in
// the place of what came later.
func (s *Server) Keep() (back func()) {
	s.t.Helper()
	copied := filepath.Join(s.t.TempDir(), "old")
	s.Stop()
	s.copy(copied, s.data())
	s.Start()
	return func() {
		s.t.Helper()
		s.Stop()
		s.copy(s.data(), copied)
		s.Start()
	}
}

func (s *Server) copy(to, from string) {
	s.t.Helper()
	err := os.RemoveAll(to)
	if err == nil {
		err = os.CopyFS(to, os.DirFS(from))
	}
	if err == nil {
		err = filepath.WalkDir(to, func(path string, f os.DirEntry, err error) error {
			if err == nil && f.IsDir() {
				err = os.Chmod(path, 0o700) // etcd wants it so
			}
			return err
		})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Compact has the server forget all earlier revisions.
func (s *Server) Compact() {
	s.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	kv := etcdserverpb.NewKVClient(conn)
	r, err := kv.Range(s.t.Context(), &etcdserverpb.RangeRequest{Key: []byte("any")})
	if err == nil {
		_, err = kv.Compact(s.t.Context(), &etcdserverpb.CompactionRequest{Revision: r.Header.Revision})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
