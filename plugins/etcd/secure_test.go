package etcd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
)

// authorityCA makes certificates.
type authorityCA struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authorityCA {
	t.Helper()
	ca := &authorityCA{t: t, dir: t.TempDir()}
	ca.cert, ca.key = ca.issue("ca", true)
	return ca
}

// issue writes name.pem and name-key.pem.
func (ca *authorityCA) issue(name string, isCA bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	ca.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: isCA, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := ca.cert, ca.key
	if isCA {
		parent, signer = tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer)
	if err != nil {
		ca.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		ca.t.Fatal(err)
	}
	ca.write(name+".pem", "CERTIFICATE", der)
	ca.write(name+"-key.pem", "EC PRIVATE KEY", keyDER)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		ca.t.Fatal(err)
	}
	return cert, key
}

func (ca *authorityCA) write(name, kind string, der []byte) {
	ca.t.Helper()
	if err := os.WriteFile(ca.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		ca.t.Fatal(err)
	}
}

func (ca *authorityCA) path(name string) string { return filepath.Join(ca.dir, name) }

func TestTLSWithClientCertificates(t *testing.T) {
	ca := newAuthority(t)
	ca.issue("server", false)
	ca.issue("agent", false)
	b := etcdtest.Start(t, "--cert-file="+ca.path("server.pem"), "--key-file="+ca.path("server-key.pem"),
		"--client-cert-auth", "--trusted-ca-file="+ca.path("ca.pem"))
	c := config(t, b.URL())
	c.CAFile, c.CertFile, c.KeyFile = ca.path("ca.pem"), ca.path("agent.pem"), ca.path("agent-key.pem")
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
	other := newAuthority(t)
	bare.StateDir += "2"
	bare.CAFile = other.path("ca.pem")
	runAgent(t, bare).state(healthDown, "certificate")
}

func TestUserAndPasswordAlsoWhenChanged(t *testing.T) {
	b := etcdtest.Start(t)
	root := client(t, b.URL())
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
	login := func() *clientv3.Client {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{b.URL()}, Username: "root", Password: "top", DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	root = login()

	c := config(t, b.URL())
	c.User, c.PasswordFile = "agent", filepath.Join(t.TempDir(), "password")
	password := func(p string) {
		if err := os.WriteFile(c.PasswordFile, []byte(p+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	password("wrong")
	a := runAgent(t, c)
	a.state(healthDown, "authentication failed")
	password("first")
	a.ready()
	a.upTo(put(t, root, "route/a", "1"))
	a.state(healthOK, "")

	// The password changes under a running agent, and its tokens end.
	if _, err := root.UserChangePassword(ctx, "agent", "second"); err != nil {
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

func TestCertificatesAreReadAnew(t *testing.T) {
	ca := newAuthority(t)
	ca.issue("agent", false)
	cfg, err := tlsConfig(Config{CertFile: ca.path("agent.pem"), KeyFile: ca.path("agent-key.pem")})
	if err != nil {
		t.Fatal(err)
	}
	serial := func() string {
		cert, err := cfg.GetClientCertificate(&tls.CertificateRequestInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return cert.Leaf.SerialNumber.String()
	}
	before := serial()
	ca.issue("agent", false)
	if serial() == before {
		t.Error("the old certificate is still used")
	}
}
