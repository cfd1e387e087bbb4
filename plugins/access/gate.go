package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/plumb-net/plumb/plugins/private"
	"github.com/plumb-net/plumb/plugins/reload"
	"github.com/plumb-net/plumb/plugins/safetext"
	"github.com/plumb-net/plumb/plugins/tlsfiles"
)

// maxFile bounds each file, in bytes.
const maxFile = 1 << 20

// Files name what a gate works with.
type Files struct {
	// Cert and Key are those of the agent.
	Cert, Key string
	// ClientCA has the authorities whose certificates clients may show, Tokens the digests
	// of tokens. One of them may be empty.
	ClientCA, Tokens string
}

// Check reports what is missing. There is no gate that lets anybody in.
func (f Files) Check() error {
	switch {
	case f.Cert == "" || f.Key == "":
		return errors.New("listen needs tls-cert and tls-key, the certificate of the agent and its key: nothing is served over the network without TLS")
	case f.ClientCA == "" && f.Tokens == "":
		return errors.New("listen needs client-ca, tokens, or both: nothing is served over the network to those who are not known")
	}
	return nil
}

// Gate tells who a request is from.
type Gate struct {
	files  *tlsfiles.Source
	tokens *reload.Value[Tokens] // nil without
	certs  bool
	now    func() time.Time
}

// Options of a gate; all may be left out.
type Options struct {
	// Every is how often the files are read at most. Default one second.
	Every time.Duration
	Log   *slog.Logger
	// Now is the clock by which certificates are judged.
	Now func() time.Time
}

// Open reads the files. They must be safe from others, and the key and the tokens must be
// readable by their owner alone.
func Open(f Files, o Options) (*Gate, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	g := &Gate{certs: f.ClientCA != "", now: o.Now}
	if g.now == nil {
		g.now = time.Now
	}
	var err error
	g.files, err = tlsfiles.Open(tlsfiles.Files{Cert: f.Cert, Key: f.Key, CA: f.ClientCA},
		tlsfiles.Options{Whose: "listen", Read: trusted, ReadKey: secret, Every: o.Every, Log: o.Log})
	if err != nil || f.Tokens == "" {
		return g, err
	}
	g.tokens, err = reload.New(reload.Options{What: "tokens", Read: secret, Every: o.Every, Log: o.Log},
		func(texts [][]byte) (Tokens, error) { return ParseTokens(f.Tokens, texts[0]) }, f.Tokens)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return g, nil
}

func trusted(file string) ([]byte, error) { return private.ReadTrusted(file, maxFile) }

func secret(file string) ([]byte, error) { return private.ReadSecretFile(file, maxFile) }

// TLS is the configuration of the listener. Without tokens nobody gets through the
// handshake who has no certificate.
func (g *Gate) TLS() *tls.Config {
	switch {
	case !g.certs:
		return g.files.Server(tls.NoClientCert)
	case g.tokens == nil:
		return g.files.Server(tls.RequireAndVerifyClientCert)
	}
	return g.files.Server(tls.VerifyClientCertIfGiven)
}

// Trouble is why files as they are now cannot be used, so that former ones are, or why
// nobody gets in; nil if all is well.
func (g *Gate) Trouble() error {
	err := g.files.Err()
	if g.tokens != nil {
		err = errors.Join(err, g.tokens.Err())
	}
	if end := g.files.Expires(); g.now().After(end) {
		err = errors.Join(err, fmt.Errorf("the certificate of the agent ended on %s", end.UTC().Format(time.RFC3339)))
	}
	return err
}

// Expires is when the certificate of the agent ends.
func (g *Gate) Expires() time.Time { return g.files.Expires() }

// Accepts says by what somebody can be known.
func (g *Gate) Accepts() string {
	switch {
	case !g.certs:
		return "tokens"
	case g.tokens == nil:
		return "certificates"
	}
	return "certificates and tokens"
}

// Identity is who asks.
type Identity struct {
	Name string
	Role Role
	// By is what he has shown: token or certificate.
	By string
	// From is his address.
	From string
}

// String is for people: "amy (operator, token, 192.0.2.7)".
func (id Identity) String() string {
	if id.Name == "" {
		return "somebody (" + id.From + ")"
	}
	return fmt.Sprintf("%s (%s, %s, %s)", safetext.Line(id.Name), id.Role, id.By, id.From)
}

// Refused is why somebody is not let in.
type Refused struct {
	Who Identity
	// Known: who asks has shown who he is, and may nothing.
	Known bool
	Why   string
}

func (r *Refused) Error() string { return r.Why }

// Identify tells who the request is from. Errors are *Refused. A token goes before a
// certificate, and a wrong one is not made good by a certificate.
func (g *Gate) Identify(r *http.Request) (Identity, error) {
	id, err := g.identify(r)
	id.From = address(r.RemoteAddr)
	var no *Refused
	if errors.As(err, &no) {
		no.Who = id
	}
	return id, err
}

func (g *Gate) identify(r *http.Request) (Identity, error) {
	if header := r.Header.Values("Authorization"); len(header) > 0 {
		return g.ofToken(header)
	}
	var certs []*x509.Certificate
	if r.TLS != nil {
		certs = r.TLS.PeerCertificates
	}
	if len(certs) == 0 {
		return Identity{}, &Refused{Why: g.want()}
	}
	if err := g.files.CheckClient(certs, g.now()); err != nil {
		return Identity{}, &Refused{Why: "the certificate is not good any more: " + strings.TrimPrefix(err.Error(), "x509: ")}
	}
	return ofCertificate(certs[0])
}

// want says what somebody has to show.
func (g *Gate) want() string {
	const token = "a token (Authorization: Bearer TOKEN)"
	switch {
	case !g.certs:
		return "who asks over the network shows " + token
	case g.tokens == nil:
		return "who asks over the network shows a certificate"
	}
	return "who asks over the network shows a certificate, or " + token
}

func (g *Gate) ofToken(header []string) (Identity, error) {
	scheme, token, _ := strings.Cut(header[0], " ")
	switch {
	case g.tokens == nil:
		return Identity{}, &Refused{Why: "this agent takes no tokens; " + g.want()}
	case len(header) > 1 || !strings.EqualFold(scheme, "bearer"):
		return Identity{}, &Refused{Why: "the header Authorization is not understood; want Bearer TOKEN"}
	}
	e, ok := g.tokens.Get().Find(strings.TrimSpace(token))
	if !ok {
		return Identity{}, &Refused{Why: "the token is unknown to this agent: it is not in its file of tokens, or not any more"}
	}
	return Identity{Name: e.Name, Role: e.Role, By: "token"}, nil
}

// address is the host of host:port.
func address(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}
