package client

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/plumb-net/plumb/plugins/private"
	"github.com/plumb-net/plumb/plugins/tlsfiles"
)

// maxFile bounds each file of a Remote, in bytes.
const maxFile = 1 << 20

// dialTime is for how long an agent over the network is dialed.
const dialTime = 10 * time.Second

// Remote says how an agent is reached over the network.
type Remote struct {
	// Address is host and port.
	Address string
	// CA has the authorities that vouch for the agent; without it those of the system do.
	CA string
	// Cert and Key are ours, if we have a certificate; TokenFile has a token. Key and
	// TokenFile are for the eyes of their owner alone.
	Cert, Key, TokenFile string
	// ServerName is the name in the agent's certificate, if it is not the host of Address.
	ServerName string
}

// NewRemote makes a client of an agent over the network. It reads the files and connects
// when it is first used.
func NewRemote(r Remote, more ...connect.ClientOption) *Client {
	t, base := &remote{Remote: r}, "https://"+r.Address
	return newClient(&http.Client{Transport: &attentive{RoundTripper: t, patience: defaultPatience, ask: askPage(t, base), at: r.Address}}, base, r.Address, more)
}

// Broken makes a client of an agent that is not known how to reach: each call fails with
// the error, which Explain leaves as it is.
func Broken(err error) *Client {
	r := &remote{}
	r.setUp.Do(func() { r.err = &setupError{err} })
	return newClient(&http.Client{Transport: r}, "https://agent", "", nil)
}

// setupError is what is wrong on our side.
type setupError struct{ error }

func (e *setupError) Unwrap() error { return e.error }

// remote reads the files before its first request.
type remote struct {
	Remote
	setUp     sync.Once
	transport *http.Transport
	token     string
	err       error
}

// RoundTrip implements http.RoundTripper.
func (r *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	r.setUp.Do(func() {
		if err := r.open(); err != nil {
			r.err = &setupError{err}
		}
	})
	if r.err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, r.err
	}
	if r.token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	return r.transport.RoundTrip(req)
}

// CloseIdleConnections is for http.Client.
func (r *remote) CloseIdleConnections() {
	if r.transport != nil {
		r.transport.CloseIdleConnections()
	}
}

func (r *remote) open() error {
	files, err := tlsfiles.Open(tlsfiles.Files{Cert: r.Cert, Key: r.Key, CA: r.CA},
		tlsfiles.Options{Whose: "our", Read: os.ReadFile, ReadKey: closed})
	if err != nil {
		return err
	}
	if r.TokenFile != "" {
		text, err := closed(r.TokenFile)
		if err != nil {
			return fmt.Errorf("token: %w", err)
		}
		if r.token = strings.TrimSpace(string(text)); r.token == "" || strings.ContainsAny(r.token, " \t\r\n") {
			return fmt.Errorf("token: %s has to hold one word, as `agentctl token create` prints it", r.TokenFile)
		}
	}
	c := files.Client()
	c.ServerName = r.ServerName
	// HTTP/1.1, which tells why a handshake failed.
	r.transport = &http.Transport{TLSClientConfig: c, DisableCompression: true,
		DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, TLSHandshakeTimeout: dialTime}
	return nil
}

func closed(file string) ([]byte, error) { return private.ReadClosed(file, maxFile) }

// explainRemote says why an agent over the network does not answer; "" if it is not about
// that.
func explainRemote(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		name    x509.HostnameError
		dns     *net.DNSError
		op      *net.OpError
	)
	switch {
	case errors.As(err, &unknown):
		return "its certificate is signed by an authority that we do not know; name the file with the right one as ca of the context"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("its certificate is good from %s to %s, which is not now; renew it there, or look at this clock",
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	case errors.As(err, &name):
		return strings.TrimPrefix(name.Error(), "x509: ") + "; name the right one as server-name of the context"
	case errors.As(err, &dns):
		return "its name is not known: " + dns.Err
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody listens there; is plumb-agent running there, with --listen?"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no way to it; try `ping`"
	case errors.As(err, &op) && op.Op == "remote error":
		return alert(op.Err.Error())
	case isDial(err) && op.Timeout():
		return "it does not answer; does a firewall stop us?"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"), strings.Contains(err.Error(), "first record does not look like a TLS handshake"):
		return "something else listens there, which does not speak TLS"
	case hungUp(err), errors.Is(err, net.ErrClosed):
		return "it closed the connection; it stopped, refuses our certificate, or has too many connections; its log says which"
	}
	return ""
}

// alert says what the agent said about the handshake, in the words of TLS.
func alert(text string) string {
	text = strings.TrimPrefix(text, "tls: ")
	switch text {
	case "certificate required":
		return "it wants a certificate; name cert and key in the context"
	case "expired certificate":
		return "our certificate has expired; have another one signed"
	case "unknown certificate authority":
		return "it does not know the authority that signed our certificate; is that one in its client-ca?"
	case "bad certificate", "unsupported certificate":
		return "it refuses our certificate; is it one for clients (clientAuth)?"
	}
	return "it refuses the handshake: " + text
}
