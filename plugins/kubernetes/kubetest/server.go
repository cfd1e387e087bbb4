package kubetest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
)

// patience bounds the start of a server: 4 s on a quiet machine.
const patience = 2 * time.Minute

// Users of the server.
const (
	// Admin may do everything.
	Admin = "admin"
	// Agent may do what a role allows that the test creates.
	Agent = "plumb-agent"
)

// Node returns the user that a node is for the API server, as kubelet is: it reads the pods of its node only.
func Node(name string) string { return "system:node:" + name }

// nodes is how many nodes have a token: n0, n1 and so on.
const nodes = 16

// Server is a kube-apiserver and its etcd, which last no longer than their test. Its methods are for the
// goroutine of the test.
type Server struct {
	Etcd *etcdtest.Server

	t    testing.TB
	dir  string
	port int
	args []string
	cmd  *exec.Cmd
}

// Start starts a server, with args besides those that it needs, and waits until it is ready. It builds the
// server if this user has none.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	limit, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	if _, err := Binary(limit); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s := &Server{Etcd: etcdtest.Start(t, "--unsafe-no-fsync"), t: t, dir: t.TempDir(), port: etcdtest.Port(t), args: args}
	s.prepare()
	t.Cleanup(s.Stop)
	s.Start()
	return s
}

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

// prepare writes the key of service accounts and the tokens of all users. The token of a user is its name.
func (s *Server) prepare() {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	der, err := x509.MarshalECPrivateKey(key)
	s.must(err)
	s.must(os.WriteFile(s.file("sa.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
	tokens := fmt.Sprintf("%s,%s,%s,system:masters\n%s,%s,%s,\n", Admin, Admin, Admin, Agent, Agent, Agent)
	for i := range nodes {
		node := Node(fmt.Sprintf("n%d", i))
		tokens += fmt.Sprintf("%s,%s,%s,system:nodes\n", node, node, node)
	}
	s.must(os.WriteFile(s.file("tokens.csv"), []byte(tokens), 0o600))
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// Addr returns host and port of the server.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// Start starts the server with the data that its etcd has, and waits until it is ready.
func (s *Server) Start() {
	s.t.Helper()
	program, err := Binary(s.t.Context())
	s.must(err)
	log, err := os.OpenFile(s.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	s.must(err)
	defer log.Close()
	flags := map[string]string{
		"etcd-servers":                     s.Etcd.URL(),
		"bind-address":                     "127.0.0.1",
		"advertise-address":                "127.0.0.1",
		"secure-port":                      fmt.Sprint(s.port),
		"cert-dir":                         s.file("certs"), // the server makes its certificate
		"token-auth-file":                  s.file("tokens.csv"),
		"authorization-mode":               "Node,RBAC",
		"enable-admission-plugins":         "NodeRestriction",
		"disable-admission-plugins":        "ServiceAccount,TaintNodesByCondition", // nobody creates accounts
		"service-account-issuer":           "https://kubernetes.default.svc",
		"service-account-signing-key-file": s.file("sa.key"),
		"service-account-key-file":         s.file("sa.key"),
		"service-cluster-ip-range":         "10.0.0.0/24",
		"endpoint-reconciler-type":         "none",
		"anonymous-auth":                   "false",
		"profiling":                        "false",
	}
	var args []string
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		args = append(args, "--"+name+"="+flags[name])
	}
	s.cmd = exec.Command(program, append(args, s.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.must(s.cmd.Start())
	last := error(nil)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if last = s.ready(); last == nil {
			return
		}
	}
	text, _ := os.ReadFile(s.file("log"))
	s.t.Fatalf("the API server is not ready: %v\n%s", last, text[max(0, len(text)-8<<10):])
}

func (s *Server) ready() error {
	if _, err := os.Stat(s.file("certs/apiserver.crt")); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
	defer cancel()
	_, err := s.Client(Admin).RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	return err
}

// Stop kills the server, which its data survive. A server that is asked to stop takes 5 s and more.
func (s *Server) Stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// config returns how the owner of a token reaches the server.
func (s *Server) config(token string) *rest.Config {
	ca, _ := os.ReadFile(s.file("certs/apiserver.crt")) // without it no request succeeds
	return &rest.Config{
		Host:            "https://" + s.Addr(),
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
		QPS:             -1, // no limit of the client
	}
}

// Client returns a client of a user, or of the owner of a token: the token of a user is its name.
func (s *Server) Client(token string) *Client {
	s.t.Helper()
	config := s.config(token)
	typed, err := kubernetes.NewForConfig(config)
	s.must(err)
	untyped, err := dynamic.NewForConfig(config)
	s.must(err)
	return &Client{Clientset: typed, Dynamic: untyped, t: s.t}
}

// Kubeconfig writes a kubeconfig of a user, or of the owner of a token, and returns its path. The address is that
// of the server, or of a proxy before it.
func (s *Server) Kubeconfig(token, addr string) string {
	s.t.Helper()
	name := fmt.Sprintf("%x", sha256.Sum256([]byte(token+" "+addr)))[:12]
	if addr == "" {
		addr = s.Addr()
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "https://%s", certificate-authority: %q}}]
users: [{name: test, user: {tokenFile: %q}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
`, addr, s.file("certs/apiserver.crt"), s.file("token-"+name))
	s.must(os.WriteFile(s.file("token-"+name), []byte(token), 0o600))
	path := s.file("kubeconfig-" + name)
	s.must(os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

// Renew removes the certificate of a server that is stopped. It makes another when it starts.
func (s *Server) Renew() {
	s.t.Helper()
	s.must(os.RemoveAll(s.file("certs")))
}
