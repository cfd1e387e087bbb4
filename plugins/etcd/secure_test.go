package etcd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/plumb-net/plumb/plugins/access/accesstest"
	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
)

func TestTLSWithClientCertificates(t *testing.T) {
	ca := accesstest.New(t)
	server, agent := ca.Issue(accesstest.Cert{Name: "server"}), ca.Issue(accesstest.Cert{Name: "agent", Client: true})
	b := etcdtest.Start(t, "--cert-file="+server.Cert, "--key-file="+server.Key,
		"--client-cert-auth", "--trusted-ca-file="+ca.File)
	c := config(t, b.URL())
	c.CAFile, c.CertFile, c.KeyFile = ca.File, agent.Cert, agent.Key
	a := runAgent(t, c)
	a.ready()
	a.state(healthOK, "")
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}

	// Without a certificate, or with the wrong authority, there is no way in.
	bare := config(t, b.URL())
	bare.CAFile = c.CAFile
	runAgent(t, bare).state(healthDown, "certificate")
	bare.StateDir += "2"
	bare.CAFile = accesstest.New(t).File
	runAgent(t, bare).state(healthDown, "certificate")
}

// withUsers turns on authentication of a store: the user agent has the password first. login
// makes a client of root.
func withUsers(t *testing.T, url string) (login func() *clientv3.Client) {
	t.Helper()
	root := client(t, url)
	ctx := t.Context()
	for _, err := range []error{
		second(root.RoleAdd(ctx, "plumb")),
		second(root.RoleGrantPermission(ctx, "plumb", "/plumb/", "/plumb0", clientv3.PermissionType(clientv3.PermReadWrite))),
		second(root.UserAdd(ctx, "root", "top")), second(root.UserGrantRole(ctx, "root", "root")),
		second(root.UserAdd(ctx, "agent", "first")), second(root.UserGrantRole(ctx, "agent", "plumb")),
		second(root.AuthEnable(ctx)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return func() *clientv3.Client {
		t.Helper()
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Username: "root", Password: "top", DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// asAgent has a configuration use the user agent; password changes the file with its password.
func (c *Config) asAgent(t *testing.T) (password func(string)) {
	c.User, c.PasswordFile = "agent", filepath.Join(t.TempDir(), "password")
	return func(p string) {
		t.Helper()
		if err := os.WriteFile(c.PasswordFile, []byte(p+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUserAndPasswordAlsoWhenChanged(t *testing.T) {
	b := etcdtest.Start(t)
	login := withUsers(t, b.URL())
	root := login()

	c := config(t, b.URL())
	password := c.asAgent(t)
	password("wrong")
	a := runAgent(t, c)
	a.state(healthDown, "authentication failed")
	password("first")
	a.ready()
	a.upTo(put(t, root, "route/a", "1"))
	a.state(healthOK, "")

	// The password changes under a running agent, and its tokens end.
	if _, err := root.UserChangePassword(t.Context(), "agent", "second"); err != nil {
		t.Fatal(err)
	}
	password("second")
	b.Stop()
	b.Start()
	rev := put(t, login(), "route/b", "1") // the official client hangs on its old token
	a.upTo(rev)
	a.wants("route/a=1 route/b=1")
	a.state(healthOK, "")
}

func second[T any](_ T, err error) error { return err }

// TestRotation: certificates, keys and authorities are replaced under a running agent,
// which is at the store again after each cut. What is damaged changes nothing, and is told.
func TestRotation(t *testing.T) {
	first, second := accesstest.New(t), accesstest.New(t)
	server, agent := first.Issue(accesstest.Cert{Name: "server"}), first.Issue(accesstest.Cert{Name: "agent", Client: true})
	b := etcdtest.Start(t, "--cert-file="+server.Cert, "--key-file="+server.Key,
		"--client-cert-auth", "--trusted-ca-file="+first.File)
	dir := t.TempDir()
	c := config(t, b.URL())
	c.CAFile, c.CertFile, c.KeyFile = filepath.Join(dir, "ca.pem"), agent.Cert, agent.Key
	c.tune.rereadEvery = time.Nanosecond
	authority := func(text []byte, err error) {
		t.Helper()
		if err == nil {
			err = os.WriteFile(c.CAFile, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	authority(os.ReadFile(first.File))
	a := runAgent(t, c)
	a.ready()
	a.state(healthOK, "")
	warned := func(want string) {
		t.Helper()
		if got := a.Health().Details["warnings"]; (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("it warns %q, want %q", got, want)
		}
	}

	authority([]byte("-----BEGIN CERTIFICATE-----\nhalf"), nil)
	b.Stop()
	a.state(healthDown, "")
	b.Start()
	a.state(healthOK, "")
	warned("ca.pem holds a damaged certificate")

	// All goes over to another authority.
	b.Stop()
	a.state(healthDown, "")
	second.Renew(server, accesstest.Cert{Name: "server"})
	second.Renew(agent, accesstest.Cert{Name: "agent", Client: true})
	authority(os.ReadFile(first.File))
	if err := os.Rename(second.File, first.File); err != nil { // which the server reads
		t.Fatal(err)
	}
	b.Start()
	a.state(healthDown, "certificate")
	warned("")
	authority(os.ReadFile(first.File))
	a.state(healthOK, "")
}
