package access_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/plugins/access"
	"github.com/plumb-net/plumb/plugins/access/accesstest"
	"github.com/plumb-net/plumb/plugins/tlsfiles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup is a gate with its files, at the door of a server that says who asks.
type setup struct {
	t       *testing.T
	ca      *accesstest.Authority
	files   access.Files
	gate    *access.Gate
	address string
	now     time.Time
	http2   bool // which does not say why a handshake failed
}

func newSetup(t *testing.T, certs, tokens bool) *setup {
	w := &setup{t: t, ca: accesstest.New(t), now: time.Now()}
	server := w.ca.Issue(accesstest.Cert{Name: "agent", Ends: time.Now().Add(12 * time.Hour)})
	w.files = access.Files{Cert: server.Cert, Key: server.Key}
	if certs {
		w.files.ClientCA = w.ca.File
	}
	if tokens {
		w.files.Tokens = filepath.Join(t.TempDir(), "tokens")
		w.write(w.files.Tokens, "")
	}
	var err error
	if w.gate, err = access.Open(w.files, access.Options{Every: time.Nanosecond, Now: func() time.Time { return w.now }}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{TLSConfig: w.gate.TLS(), ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		id, err := w.gate.Identify(r)
		var no *access.Refused
		if errors.As(err, &no) {
			fmt.Fprintf(out, "refused: %s", no.Why)
			return
		}
		io.WriteString(out, id.String())
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.ServeTLS(l, "", "") }()
	t.Cleanup(func() { srv.Close(); <-done })
	w.address = l.Addr().String()
	return w
}

func (w *setup) write(file, text string) {
	w.t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// client keeps its connection, if it has one.
func (w *setup) client(p accesstest.Pair, ca string) *http.Client {
	w.t.Helper()
	files, err := tlsfiles.Open(tlsfiles.Files{Cert: p.Cert, Key: p.Key, CA: ca}, tlsfiles.Options{Read: os.ReadFile, ReadKey: os.ReadFile})
	if err != nil {
		w.t.Fatal(err)
	}
	tr := &http.Transport{TLSClientConfig: files.Client(), ForceAttemptHTTP2: w.http2}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// ask returns the answer, or the error in its place.
func (w *setup) ask(c *http.Client, token string) string {
	w.t.Helper()
	r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://"+w.address, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(r)
	for range 50 { // a client of TLS 1.3 may write before it reads that it is refused
		if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			break
		}
		resp, err = c.Do(r)
	}
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}

func (w *setup) expect(c *http.Client, token, want string) {
	w.t.Helper()
	if got := w.ask(c, token); !strings.Contains(got, want) {
		w.t.Errorf("got  %s\nwant %s", got, want)
	}
}

func (w *setup) token(name string, role access.Role) (token, line string) {
	token, e, err := access.NewToken(name, role)
	if err != nil {
		w.t.Fatal(err)
	}
	return token, e.String() + "\n"
}

// TestTokensAreFollowed: a token that is taken out ends at the next request, on a connection
// that is open too; a damaged file changes nothing.
func TestTokensAreFollowed(t *testing.T) {
	w := newSetup(t, false, true)
	w.http2 = true
	c := w.client(accesstest.Pair{}, w.ca.File)
	amy, amyLine := w.token("amy", access.Operator)
	bob, bobLine := w.token("bob", access.Viewer)
	w.expect(c, "", "refused: who asks over the network shows a token (Authorization: Bearer TOKEN)")
	w.expect(c, amy, "refused: the token is unknown to this agent")
	w.write(w.files.Tokens, amyLine+bobLine)
	w.expect(c, amy, "amy (operator, token, 127.0.0.1)")
	w.expect(c, bob, "bob (viewer, token, 127.0.0.1)")
	w.write(w.files.Tokens, bobLine+"amy")
	w.expect(c, amy, "amy (operator, token, 127.0.0.1)")
	if err := w.gate.Trouble(); err == nil || !strings.Contains(err.Error(), "tokens:2: want three words") {
		t.Errorf("the damage: %v", err)
	}
	w.write(w.files.Tokens, bobLine)
	w.expect(c, amy, "refused: the token is unknown to this agent")
	if err := w.gate.Trouble(); err != nil {
		t.Errorf("it is mended: %v", err)
	}
	if err := os.Chmod(w.files.Tokens, 0o644); err != nil {
		t.Fatal(err)
	}
	w.expect(c, bob, "bob")
	if err := w.gate.Trouble(); err == nil || !strings.Contains(err.Error(), "others may read "+w.files.Tokens) {
		t.Errorf("an open file: %v", err)
	}
}

// TestCertificates: who has which role by his certificate, and who is not let in.
func TestCertificates(t *testing.T) {
	w := newSetup(t, true, false)
	for _, tc := range []struct {
		cert accesstest.Cert
		want string
	}{
		{accesstest.Cert{Name: "amy", Roles: []string{"plumb:viewer"}}, "amy (viewer, certificate, 127.0.0.1)"},
		{accesstest.Cert{Name: "amy", Roles: []string{"staff", "plumb:viewer", "plumb:admin"}}, "amy (admin, certificate, 127.0.0.1)"},
		{accesstest.Cert{Name: "amy", Roles: []string{"plumb:boss", "operator"}}, "refused: the certificate of amy gives no role: its organization (O) must be plumb:viewer, plumb:operator or plumb:admin"},
		{accesstest.Cert{Roles: []string{"plumb:admin"}}, "refused: the certificate has no common name (CN)"},
		{accesstest.Cert{Name: strings.Repeat("ä", 64), Roles: []string{"plumb:viewer"}}, "ä (viewer, certificate"},
		{accesstest.Cert{Name: strings.Repeat("a", 65), Roles: []string{"plumb:admin"}}, "refused: the common name (CN) of the certificate must have 1 to 64 printable characters"},
		{accesstest.Cert{Name: "amy\nlevel=INFO by=root", Roles: []string{"plumb:admin"}}, "refused: the common name (CN)"},
		{accesstest.Cert{Name: "amy\u202e", Roles: []string{"plumb:admin"}}, "refused: the common name (CN)"},
		{accesstest.Cert{Name: "amy", Roles: []string{"plumb:admin"}, Ends: time.Now().Add(-time.Hour)}, "expired certificate"},
	} {
		tc.cert.Client = true
		w.expect(w.client(w.ca.Issue(tc.cert), w.ca.File), "", tc.want)
	}
	w.expect(w.client(accesstest.Pair{}, w.ca.File), "", "certificate required")
	server := w.ca.Issue(accesstest.Cert{Name: "amy", Roles: []string{"plumb:admin"}})
	w.expect(w.client(server, w.ca.File), "", "bad certificate")
	stranger := accesstest.New(t).Issue(accesstest.Cert{Name: "amy", Roles: []string{"plumb:admin"}, Client: true})
	w.expect(w.client(stranger, w.ca.File), "", "unknown certificate authority")
	good := w.client(w.ca.Issue(accesstest.Cert{Name: "amy", Roles: []string{"plumb:admin"}, Client: true}), w.ca.File)
	w.expect(good, "x", "refused: this agent takes no tokens; who asks over the network shows a certificate")
}

// TestBoth: a token goes before a certificate, and a wrong one is not made good by it.
func TestBoth(t *testing.T) {
	w := newSetup(t, true, true)
	amy, line := w.token("amy", access.Operator)
	w.write(w.files.Tokens, line)
	bare := w.client(accesstest.Pair{}, w.ca.File)
	w.expect(bare, "", "refused: who asks over the network shows a certificate, or a token")
	w.expect(bare, amy, "amy (operator, token")
	bob := w.client(w.ca.Issue(accesstest.Cert{Name: "bob", Roles: []string{"plumb:viewer"}, Client: true}), w.ca.File)
	w.expect(bob, "", "bob (viewer, certificate")
	w.expect(bob, amy, "amy (operator, token")
	w.expect(bob, "wrong", "refused: the token is unknown")
}

// TestCertificatesAreFollowed: a new certificate of the agent and a new authority of clients
// are in use at the next handshake, and what ends or is not vouched for any more is refused
// at the next request, on a connection that is open too.
func TestCertificatesAreFollowed(t *testing.T) {
	w := newSetup(t, true, false)
	w.http2 = true
	amy := w.client(w.ca.Issue(accesstest.Cert{Name: "amy", Roles: []string{"plumb:admin"}, Client: true}), w.ca.File)
	w.expect(amy, "", "amy (admin")
	w.now = w.now.Add(2 * time.Hour)
	w.expect(amy, "", "refused: the certificate is not good any more: certificate has expired")
	w.now = w.now.Add(-2 * time.Hour)

	next := accesstest.New(t)
	ca, err := os.ReadFile(next.File)
	if err != nil {
		t.Fatal(err)
	}
	w.write(w.ca.File, "nothing")
	w.expect(amy, "", "amy (admin")
	if err := w.gate.Trouble(); err == nil || !strings.Contains(err.Error(), "holds no certificate in PEM form") {
		t.Errorf("the damage: %v", err)
	}
	w.write(w.ca.File, string(ca))
	w.expect(amy, "", "refused: the certificate is not good any more: certificate signed by unknown authority")
	if err := w.gate.Trouble(); err != nil {
		t.Errorf("it is mended: %v", err)
	}

	next.Renew(accesstest.Pair{Cert: w.files.Cert, Key: w.files.Key}, accesstest.Cert{Name: "agent", Ends: time.Now().Add(12 * time.Hour)})
	bob := w.client(next.Issue(accesstest.Cert{Name: "bob", Roles: []string{"plumb:viewer"}, Client: true}), next.File)
	w.expect(bob, "", "bob (viewer")
	w.now = w.now.Add(13 * time.Hour)
	if err := w.gate.Trouble(); err == nil || !strings.Contains(err.Error(), "the certificate of the agent ended") {
		t.Errorf("an old certificate: %v", err)
	}
}

// TestOldTLS: what is older than TLS 1.3 is not spoken.
func TestOldTLS(t *testing.T) {
	w := newSetup(t, false, true)
	_, err := tls.Dial("tcp", w.address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	if err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("TLS 1.2: %v", err)
	}
}

// TestOpen: a gate that lets in anybody cannot be made, and what is wrong with a file is
// told with its name.
func TestOpen(t *testing.T) {
	ca := accesstest.New(t)
	p := ca.Issue(accesstest.Cert{Name: "agent"})
	tokens := filepath.Join(t.TempDir(), "tokens")
	open := filepath.Join(t.TempDir(), "open")
	for file, mode := range map[string]os.FileMode{tokens: 0o600, open: 0o640} {
		if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		files access.Files
		want  string
	}{
		{access.Files{Cert: p.Cert, Key: p.Key, Tokens: tokens}, "<nil>"},
		{access.Files{Cert: p.Cert, Key: p.Key, ClientCA: ca.File}, "<nil>"},
		{access.Files{Cert: p.Cert, Key: p.Key}, "listen needs client-ca, tokens, or both"},
		{access.Files{Cert: p.Cert, Tokens: tokens}, "listen needs tls-cert and tls-key"},
		{access.Files{Key: p.Key, Tokens: tokens}, "listen needs tls-cert and tls-key"},
		{access.Files{Tokens: tokens, ClientCA: ca.File}, "listen needs tls-cert and tls-key"},
		{access.Files{Cert: p.Cert, Key: p.Key, Tokens: open}, "tokens: others may read " + open + " (mode 0640); close it with chmod 600"},
		{access.Files{Cert: p.Cert, Key: open, Tokens: tokens}, "listen certificate: others may read " + open},
		{access.Files{Cert: p.Cert, Key: p.Key, Tokens: "/none"}, "/none: no such file"},
		{access.Files{Cert: p.Cert, Key: p.Key, Tokens: p.Key}, "tokens: " + p.Key + ":1: the first word is no name"},
		{access.Files{Cert: p.Cert, Key: p.Key, ClientCA: tokens}, "listen CA: " + tokens + " holds no certificate in PEM form"},
	} {
		_, err := access.Open(tc.files, access.Options{})
		if got := fmt.Sprint(err); !strings.Contains(got, tc.want) {
			t.Errorf("%+v\n got %s\nwant %s", tc.files, got, tc.want)
		}
	}
}

// TestFew: one address cannot take all connections, and a closed one makes room.
func TestFew(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	refused := make(chan net.Addr, 1)
	l := access.Few(inner, func(a net.Addr) { refused <- a })
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	var first net.Conn
	for range 64 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ours := <-accepted
		defer ours.Close()
		first = ours
	}
	more, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer more.Close()
	<-refused
	if n, err := more.Read(make([]byte, 1)); err == nil {
		t.Errorf("the last one reads %d bytes", n)
	}
	first.Close()
	first.Close() // counts once
	again, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	(<-accepted).Close()
	inner.Close()
	<-accepted
}
