// Package tlsfiles has TLS with certificates, keys and authorities from files, which may
// be replaced while they are in use.
//
// A certificate and its key are two files, and somebody has to write one before the other.
// Until both fit the former pair stays in use.
package tlsfiles

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/plumb-net/plumb/plugins/reload"
)

// Files name what one side has. What is empty is left out.
type Files struct {
	// Cert and Key are our own; one needs the other.
	Cert, Key string
	// CA has the authorities that vouch for the other side.
	CA string
}

// Options say how the files are read.
type Options struct {
	// Whose they are, for errors and the log: "etcd".
	Whose string
	// Read reads a file that anybody may see, ReadKey one that nobody may.
	Read, ReadKey func(path string) ([]byte, error)
	// Every and Log are those of package reload.
	Every time.Duration
	Log   *slog.Logger
}

// Source is what the files hold.
type Source struct {
	pair  *reload.Value[*tls.Certificate]
	roots *reload.Value[*x509.CertPool]
}

// Open reads the files.
func Open(f Files, o Options) (s *Source, err error) {
	if (f.Cert == "") != (f.Key == "") {
		return nil, fmt.Errorf("%s: a certificate needs its key and the key its certificate", o.Whose)
	}
	s = &Source{}
	if f.Cert != "" {
		read := func(path string) ([]byte, error) {
			if path == f.Key {
				return o.ReadKey(path)
			}
			return o.Read(path)
		}
		s.pair, err = reload.New(o.reload("certificate and key", read), func(pems [][]byte) (*tls.Certificate, error) {
			pair, err := tls.X509KeyPair(pems[0], pems[1])
			if err != nil {
				return nil, fmt.Errorf("%s and %s: %s", f.Cert, f.Key, strings.TrimPrefix(err.Error(), "tls: "))
			}
			return &pair, nil
		}, f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("%s certificate: %w", o.Whose, err)
		}
	}
	if f.CA != "" {
		s.roots, err = reload.New(o.reload("authorities", o.Read), func(pems [][]byte) (*x509.CertPool, error) {
			pool, err := Pool(pems[0])
			if err != nil {
				return nil, fmt.Errorf("%s %w", f.CA, err)
			}
			return pool, nil
		}, f.CA)
		if err != nil {
			return nil, fmt.Errorf("%s CA: %w", o.Whose, err)
		}
	}
	return s, nil
}

func (o Options) reload(what string, read func(string) ([]byte, error)) reload.Options {
	return reload.Options{What: o.Whose + " " + what, Read: read, Every: o.Every, Log: o.Log}
}

// Pool reads certificates of authorities, all or none: one that is damaged is not passed
// over in silence. The error goes after the name of the file.
func Pool(text []byte) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	for rest := text; ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("holds %q, want certificates alone", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("holds a damaged certificate: %s", strings.TrimPrefix(err.Error(), "x509: "))
		}
		pool.AddCert(cert)
	}
	switch begun := bytes.Count(text, []byte("-----BEGIN ")); {
	case begun == 0:
		return nil, errors.New("holds no certificate in PEM form")
	case begun != n: // the decoder passes over them
		return nil, errors.New("holds a damaged certificate")
	}
	return pool, nil
}

// Err is why files as they are now cannot be used, nil if they can.
func (s *Source) Err() error {
	var errs []error
	if s.pair != nil {
		errs = append(errs, s.pair.Err())
	}
	if s.roots != nil {
		errs = append(errs, s.roots.Err())
	}
	return errors.Join(errs...)
}

// Expires is when our certificate ends.
func (s *Source) Expires() time.Time { return s.pair.Get().Leaf.NotAfter }

// Client is the configuration of one handshake as a client. Without authorities those of
// the system vouch.
func (s *Source) Client() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.roots != nil {
		c.RootCAs = s.roots.Get()
	}
	if s.pair != nil {
		c.Certificates = []tls.Certificate{*s.pair.Get()}
	}
	return c
}

// Server is the configuration of a server, which looks at the files at each handshake. who
// says whether clients need a certificate. Nothing is resumed: a session of before could
// outlive the authority that vouched for it.
func (s *Source) Server(who tls.ClientAuthType) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"}, SessionTicketsDisabled: true}
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := &tls.Config{
			MinVersion: c.MinVersion, NextProtos: c.NextProtos, SessionTicketsDisabled: true,
			Certificates: []tls.Certificate{*s.pair.Get()}, ClientAuth: who,
		}
		if s.roots != nil {
			now.ClientCAs = s.roots.Get()
		}
		return now, nil
	}
	return c
}

// CheckClient reports why the certificates of a client are not good, or not any more: the
// handshake may be long ago.
func (s *Source) CheckClient(certs []*x509.Certificate, now time.Time) error {
	if s.roots == nil || len(certs) == 0 {
		return errors.New("no certificate was asked for, or none was given")
	}
	between := x509.NewCertPool()
	for _, c := range certs[1:] {
		between.AddCert(c)
	}
	_, err := certs[0].Verify(x509.VerifyOptions{
		Roots: s.roots.Get(), Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}
