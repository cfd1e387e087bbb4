package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/access"
	"github.com/plumb-net/plumb/plugins/access/accesstest"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/tlsfiles"
)

// everyCall are the paths of all calls and whether they are streams.
func everyCall() map[string]bool {
	all := map[string]bool{}
	service := apiv1.File_agent_proto.Services().ByName("Agent")
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		all[fmt.Sprintf("/%s/%s", service.FullName(), m.Name())] = m.IsStreamingServer() || m.IsStreamingClient()
	}
	return all
}

var pages = []string{"/livez", "/readyz", "/metrics", "/log", "/ui/"}

// TestEveryCallHasARole: the table names each call and each page once, and nothing else;
// and what is audited is no stream, since its line is written when it ends.
func TestEveryCallHasARole(t *testing.T) {
	roles, calls := needed(), everyCall()
	for path, stream := range calls {
		switch role, ok := roles[path]; {
		case !ok:
			t.Errorf("%s takes no role: say in roles.go which", path)
		case stream && role > access.Viewer:
			t.Errorf("%s is a stream that takes %s, and is not audited", path, role)
		}
	}
	for _, page := range pages {
		if roles[page] == access.Nobody {
			t.Errorf("%s takes no role", page)
		}
	}
	listed := 0
	for _, names := range needs {
		listed += len(names)
	}
	if listed != len(calls)+len(pages) || len(roles) != listed {
		t.Errorf("the table has %d names for %d paths; there are %d calls and %d pages", listed, len(roles), len(calls), len(pages))
	}
}

// door is a gate before a handler that notes what reaches it.
type door struct {
	t       *testing.T
	ca      *accesstest.Authority
	url     string
	tokens  string // the file
	log     *logged
	mu      sync.Mutex // guards reached
	reached []string
	next    http.HandlerFunc
}

type logged struct {
	mu  sync.Mutex // guards all
	all bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func newDoor(t *testing.T) *door {
	d := &door{t: t, ca: accesstest.New(t), tokens: filepath.Join(t.TempDir(), "tokens"), log: &logged{}}
	if err := os.WriteFile(d.tokens, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pair := d.ca.Issue(accesstest.Cert{Name: "agent"})
	gate, err := access.Open(access.Files{Cert: pair.Cert, Key: pair.Key, ClientCA: d.ca.File, Tokens: d.tokens}, access.Options{Every: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Config: Config{Log: slog.New(slog.NewTextHandler(d.log, nil))}, judgeEvery: 10 * time.Millisecond}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{TLSConfig: gate.TLS(), Handler: s.guarded(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.reached = append(d.reached, r.URL.Path)
		d.mu.Unlock()
		if d.next != nil {
			d.next(w, r)
		}
	}))}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.ServeTLS(l, "", "") }()
	t.Cleanup(func() { srv.Close(); <-done })
	d.url = "https://" + l.Addr().String()
	return d
}

// through takes what has reached the handler.
func (d *door) through() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.reached
	d.reached = nil
	return all
}

// client shows the certificate, if one is given.
func (d *door) client(p accesstest.Pair) *http.Client {
	d.t.Helper()
	files, err := tlsfiles.Open(tlsfiles.Files{Cert: p.Cert, Key: p.Key, CA: d.ca.File}, tlsfiles.Options{Read: os.ReadFile, ReadKey: os.ReadFile})
	if err != nil {
		d.t.Fatal(err)
	}
	tr := &http.Transport{TLSClientConfig: files.Client(), ForceAttemptHTTP2: true}
	d.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func (d *door) ask(c *http.Client, method, path, token string) (status int, code string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader("{}"))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Code string }
	text, _ := io.ReadAll(resp.Body)
	_ = json.Unmarshal(text, &answer)
	return resp.StatusCode, answer.Code
}

func (d *door) token(name string, role access.Role) string {
	d.t.Helper()
	token, e, err := access.NewToken(name, role)
	if err != nil {
		d.t.Fatal(err)
	}
	f, err := os.OpenFile(d.tokens, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	fmt.Fprintln(f, e)
	f.Close()
	return token
}

// TestEveryRoleAtEveryCall: everybody with each role, and with none, at every call and page:
// who may reaches the handler, and nobody else does.
func TestEveryRoleAtEveryCall(t *testing.T) {
	d := newDoor(t)
	type somebody struct {
		role  access.Role
		http  *http.Client
		token string
		known bool
	}
	bare := d.client(accesstest.Pair{})
	people := map[string]somebody{
		"nobody":                   {http: bare},
		"a wrong token":            {http: bare, token: "plumb_wrong"},
		"a certificate of nothing": {http: d.client(d.ca.Issue(accesstest.Cert{Name: "x", Client: true})), known: true},
		"a certificate of another authority's role": {http: d.client(d.ca.Issue(accesstest.Cert{Name: "x", Roles: []string{"system:masters"}, Client: true})), known: true},
	}
	for _, role := range access.Roles {
		people["a token of "+role.String()] = somebody{role: role, http: bare, token: d.token("t-"+role.String(), role)}
		people["a certificate of "+role.String()] = somebody{role: role, http: d.client(d.ca.Issue(accesstest.Cert{Name: "c", Roles: []string{"plumb:" + role.String()}, Client: true}))}
	}
	paths := append([]string{"/", "/other", "/livez/", "//livez", "/plumb.api.v1.Agent/", "/plumb.api.v1.Agent/None", "/plumb.api.v1.Agent/get", "/plumb.api.v1.Agent//Get", "/x/../log", "/%6cog"}, pages...)
	for path := range everyCall() {
		paths = append(paths, path)
	}
	roles := needed()
	for name, p := range people {
		for _, path := range paths {
			method := http.MethodPost
			if strings.Count(path, "/") == 1 {
				method = http.MethodGet
			}
			status, code := d.ask(p.http, method, path, p.token)
			role, exists := roles[strings.ReplaceAll(path, "%6c", "l")]
			want, wantCode := http.StatusOK, ""
			switch {
			case p.role == access.Nobody && p.known:
				want, wantCode = http.StatusForbidden, "permission_denied"
			case p.role == access.Nobody:
				want, wantCode = http.StatusUnauthorized, "unauthenticated"
			case !exists:
				want, wantCode = http.StatusNotImplemented, "unimplemented"
			case p.role < role:
				want, wantCode = http.StatusForbidden, "permission_denied"
			}
			if got := d.through(); (len(got) == 1) != (want == http.StatusOK) || len(got) > 1 {
				t.Errorf("%s at %s: the handler got %v", name, path, got)
			}
			if status != want || code != wantCode {
				t.Errorf("%s at %s: %d %s, want %d %s", name, path, status, code, want, wantCode)
			}
		}
	}
	if lines := strings.Count(d.log.String(), "a call was refused"); lines != sparingLines {
		t.Errorf("%d lines of the log tell of refused calls, want %d:\n%s", lines, sparingLines, d.log)
	}
}

// TestBodiesOfStrangersAreNotRead: the answer comes before the body does.
func TestBodiesOfStrangersAreNotRead(t *testing.T) {
	d := newDoor(t)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(d.url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /plumb.api.v1.Agent/Apply HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 10000000\r\n\r\n")
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized || !resp.Close || !strings.Contains(string(text), "who asks over the network shows a certificate, or a token") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("the connection stays open")
	}
}

// TestRevokedWhileItLasts: a call ends when the role of its caller does.
func TestRevokedWhileItLasts(t *testing.T) {
	d := newDoor(t)
	began, ended := make(chan string, 1), make(chan string, 1)
	d.next = func(_ http.ResponseWriter, r *http.Request) {
		began <- who(r.Context())
		<-r.Context().Done()
		ended <- fmt.Sprint(whyEnded(r.Context(), r.Context().Err()))
	}
	token := d.token("amy", access.Viewer)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/plumb.api.v1.Agent/Watch", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		if resp, err := d.client(accesstest.Pair{}).Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	if got := <-began; got != "amy (viewer, token, 127.0.0.1)" {
		t.Errorf("the call is of %q", got)
	}
	select {
	case why := <-ended:
		t.Fatal("it ended by itself:", why)
	case <-time.After(100 * time.Millisecond):
	}
	if err := os.Truncate(d.tokens, 0); err != nil {
		t.Fatal(err)
	}
	if got, want := <-ended, "unauthenticated: the token is unknown to this agent: it is not in its file of tokens, or not any more"; got != want {
		t.Errorf("it ended with %q", got)
	}
	<-asked
}

// TestSparing: a flood of refusals leaves few lines, and the next one tells how many there
// were.
func TestSparing(t *testing.T) {
	var s sparing
	at, written := time.Now(), 0
	for range 1000 {
		if _, ok := s.next(at); ok {
			written++
		}
	}
	if kept, ok := s.next(at.Add(sparingTime)); written != sparingLines || !ok || kept != 1000-sparingLines {
		t.Errorf("%d lines, then %v with %d", written, ok, kept)
	}
}
