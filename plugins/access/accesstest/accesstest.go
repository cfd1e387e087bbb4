// Package accesstest makes authorities and certificates for tests.
package accesstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	// File has its certificate.
	File string

	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair are the files of a certificate and its key.
type Pair struct{ Cert, Key string }

// Cert says what a certificate is to be. Those of servers are for 127.0.0.1.
type Cert struct {
	Name  string
	Roles []string // organizations
	// Client: it is one of a client, else of a server.
	Client bool
	// Ends is when. Default: in an hour.
	Ends time.Time
}

// New makes an authority, whose files last as long as the test.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, key := a.sign(template)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.key = key
	a.File = filepath.Join(t.TempDir(), "ca.pem")
	a.write(a.File, "CERTIFICATE", der)
	return a
}

// Issue makes a certificate in new files.
func (a *Authority) Issue(c Cert) Pair {
	a.t.Helper()
	dir := a.t.TempDir()
	p := Pair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	a.Renew(p, c)
	return p
}

// Renew writes another certificate and its key into the files.
func (a *Authority) Renew(p Pair, c Cert) {
	a.t.Helper()
	usage := x509.ExtKeyUsageServerAuth
	if c.Client {
		usage = x509.ExtKeyUsageClientAuth
	}
	if c.Ends.IsZero() {
		c.Ends = time.Now().Add(time.Hour)
	}
	der, key := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: c.Name, Organization: c.Roles}, NotAfter: c.Ends,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(p.Cert, "CERTIFICATE", der)
	a.write(p.Key, "PRIVATE KEY", text)
}

// sign makes a key and a certificate of it, signed by itself if there is no authority yet.
func (a *Authority) sign(template *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-48 * time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

func (a *Authority) write(file, what string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: what, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}
