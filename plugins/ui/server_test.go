package ui_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/private/privatetest"
	"github.com/plumb-net/plumb/plugins/ui"
)

const service = "/plumb.api.v1.Agent/"

// amy is the user who started agentctl ui by sudo.
const amy = 61234

// agent is what is behind the server. It notes what reaches it.
type agent struct {
	mu      sync.Mutex
	reached []string
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reached = append(a.reached, r.URL.Path)
	for name := range r.Header {
		switch name {
		case "Plumb-Session", "Cookie", "Authorization", "Referer":
			a.reached = append(a.reached, "with the header "+name)
		}
	}
}

// taken returns what has reached the agent since it was last called.
func (a *agent) taken() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() { a.reached = nil }()
	return a.reached
}

// served runs a server at an address until the test or stop ends it.
func served(t *testing.T, address string) (s *ui.Server, a *agent, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	a = &agent{}
	s = ui.NewServer(l, ui.Config{Users: []int{amy}, Service: service, Agent: a})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return s, a, stop
}

// call is a request as it goes over the wire.
type call struct {
	uid                  int
	method, path, origin string
	host                 string // "" is that of the server
	header               http.Header
}

// send makes the request by a connection of its user.
func (c call) send(t *testing.T, at string) *http.Response {
	t.Helper()
	conn := privatetest.Dialed(t, c.uid, at)
	r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+at+c.path, strings.NewReader("intent: {}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = c.host
	maps.Copy(r.Header, c.header)
	if c.origin != "" {
		r.Header.Set("Origin", c.origin)
	}
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	got.Body = io.NopCloser(bytes.NewReader(body))
	return got
}

// secrets are what a browser has once it is in.
type secrets struct{ place, session string }

// enter shows the token and returns what the browser gets for it.
func enter(t *testing.T, s *ui.Server) secrets {
	t.Helper()
	at, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	got := call{uid: amy, method: "GET", path: at.RequestURI()}.send(t, at.Host)
	to, err := url.Parse(got.Header.Get("Location"))
	if err != nil || got.StatusCode != http.StatusSeeOther {
		t.Fatalf("the token: %d, %v", got.StatusCode, err)
	}
	if c := got.Header.Values("Set-Cookie"); len(c) > 0 {
		t.Errorf("a browser would send %q to all ports of this host", c)
	}
	of, err := url.ParseQuery(to.Fragment)
	if err != nil {
		t.Fatal(err)
	}
	place := strings.TrimSuffix(to.Path, "/ui/")
	if len(place) < 20 || len(of.Get("session")) < 20 {
		t.Fatalf("it leads to %s", to)
	}
	return secrets{place, of.Get("session")}
}

// endpoint is something that a server could serve.
type endpoint struct {
	method, path string
	// asset: it is part of the program of the page, in which nothing is secret.
	asset bool
	// passed: it is a call that the page makes.
	passed bool
}

// endpoints are all of the server, and all of the agent.
func endpoints(t *testing.T) (all []endpoint) {
	t.Helper()
	for _, name := range append(assetNames(t), "") {
		all = append(all, endpoint{method: "GET", path: "/ui/" + name, asset: true})
	}
	methods := apiv1.File_agent_proto.Services().ByName("Agent").Methods()
	for i := range methods.Len() {
		name := string(methods.Get(i).Name())
		all = append(all, endpoint{method: "POST", path: service + name, passed: slices.Contains(ui.Calls(), name)},
			endpoint{method: "GET", path: service + name})
	}
	for _, path := range []string{"/", "/livez", "/readyz", "/metrics", "/log", "/ui/x", "/x" + service + "Map", service + "../log", service + "Map/"} {
		all = append(all, endpoint{method: "GET", path: path}, endpoint{method: "POST", path: path})
	}
	return append(all, endpoint{method: "POST", path: "/ui/parse"})
}

func assetNames(t *testing.T) (names []string) {
	t.Helper()
	files, err := os.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// caller is somebody who sends a request to an endpoint.
type caller struct {
	name string
	make func(e endpoint, at string, s secrets) call
	// program: the caller gets the assets, and nothing else.
	program bool
	// all: the caller is the page.
	all bool
}

// with is a call of the page, as it is.
func with(e endpoint, s secrets) call {
	return call{uid: amy, method: e.method, path: s.place + e.path, header: http.Header{"Plumb-Session": {s.session}}}
}

// but is the same with something else.
func but(change func(c *call, at string, s secrets)) func(endpoint, string, secrets) call {
	return func(e endpoint, at string, s secrets) call {
		c := with(e, s)
		change(&c, at, s)
		return c
	}
}

func callers(token string, former secrets) []caller {
	bare := func(c *call, s secrets) { c.header, c.path = nil, strings.TrimPrefix(c.path, s.place) }
	return []caller{
		{name: "the page", all: true, make: but(func(c *call, at string, _ secrets) { c.origin = "http://" + at })},
		{name: "root", all: true, make: but(func(c *call, _ string, _ secrets) { c.uid = 0 })},
		{name: "without a session", program: true, make: but(func(c *call, _ string, _ secrets) { c.header = nil })},
		{name: "with a wrong session", program: true, make: but(func(c *call, _ string, s secrets) { c.header.Set("Plumb-Session", s.session+"x") })},
		{name: "with an empty session", program: true, make: but(func(c *call, _ string, _ secrets) { c.header.Set("Plumb-Session", "") })},
		{name: "with the session as a cookie", program: true, make: but(func(c *call, _ string, s secrets) {
			c.header = http.Header{"Cookie": {"Plumb-Session=" + s.session + "; plumb-ui=" + s.session}}
		})},
		{name: "with the session in the address", program: true, make: but(func(c *call, _ string, s secrets) {
			c.header = nil
			c.path += "?session=" + s.session + "&token=" + s.session
		})},
		{name: "with the session of a former server", program: true, make: but(func(c *call, _ string, _ secrets) { c.header.Set("Plumb-Session", former.session) })},
		{name: "at the place of a former server", make: but(func(c *call, _ string, s secrets) {
			c.path = former.place + strings.TrimPrefix(c.path, s.place)
		})},
		{name: "without anything", make: but(func(c *call, _ string, s secrets) { bare(c, s) })},
		{name: "with the token again", make: but(func(c *call, _ string, s secrets) {
			bare(c, s)
			c.path += "?token=" + token
		})},
		{name: "without the place", make: but(func(c *call, _ string, s secrets) { c.path = strings.TrimPrefix(c.path, s.place) })},
		{name: "at a wrong place", make: but(func(c *call, _ string, s secrets) { c.path = "/x" + c.path[1:] })},
		{name: "another user", make: but(func(c *call, _ string, _ secrets) { c.uid = privatetest.Nobody })},
		{name: "another user as the page", make: but(func(c *call, at string, _ secrets) { c.uid, c.origin = privatetest.Nobody, "http://"+at })},
		{name: "another user with the token", make: but(func(c *call, _ string, s secrets) {
			bare(c, s)
			c.uid = privatetest.Nobody
			c.path += "?token=" + token
		})},
		{name: "another name of the host", make: but(func(c *call, at string, _ secrets) { c.host = "localhost" + at[strings.LastIndexByte(at, ':'):] })},
		{name: "a name of somebody else", make: but(func(c *call, at string, _ secrets) { c.host = "evil.example" + at[strings.LastIndexByte(at, ':'):] })},
		{name: "another port as the host", make: but(func(c *call, _ string, _ secrets) { c.host = "127.0.0.1:1" })},
		{name: "another page", make: but(func(c *call, _ string, _ secrets) { c.origin = "http://evil.example" })},
		{name: "a page of another port", make: but(func(c *call, _ string, _ secrets) { c.origin = "http://127.0.0.1:1" })},
		{name: "a page with TLS", make: but(func(c *call, at string, _ secrets) { c.origin = "https://" + at })},
		{name: "a page of a file", make: but(func(c *call, _ string, _ secrets) { c.origin = "null" })},
		{name: "a page that asks whether it may", make: but(func(c *call, at string, _ secrets) {
			c.method, c.origin = "OPTIONS", "http://evil.example"
			c.header = http.Header{"Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"plumb-session"}}
		})},
	}
}

// TestEndpoints: each endpoint is refused to each caller but the page itself, which gets what it
// needs and no more. Whoever knows the place of the page alone gets its program, in which nothing is
// secret.
func TestEndpoints(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("connections of other users need root")
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			old, _, stop := served(t, address)
			former := enter(t, old)
			at, err := url.Parse(old.URL())
			if err != nil {
				t.Fatal(err)
			}
			stop()
			server, agent, _ := served(t, at.Host) // on the same port
			token, err := url.Parse(server.URL())
			if err != nil {
				t.Fatal(err)
			}
			mine := enter(t, server)
			for _, who := range callers(token.Query().Get("token"), former) {
				if address == "[::1]:0" && !who.all && who.name != "another user" {
					continue // what follows from the user is what differs by family
				}
				for _, e := range endpoints(t) {
					c := who.make(e, at.Host, mine)
					got := c.send(t, at.Host)
					what := fmt.Sprintf("%s: %s %s", who.name, e.method, c.path)
					reached := agent.taken()
					want := []string(nil)
					if who.all && e.passed {
						want = []string{e.path}
					}
					if !slices.Equal(reached, want) {
						t.Errorf("%s: %q has reached the agent, want %q", what, reached, want)
					}
					if served, want := got.StatusCode == http.StatusOK, who.all && (e.asset || e.passed || e.path == "/ui/parse") || who.program && e.asset; served != want {
						t.Errorf("%s: %s", what, got.Status)
					}
					checkHeaders(t, what, got, mine)
				}
			}
		})
	}
}

// checkHeaders checks what holds for each answer.
func checkHeaders(t *testing.T, what string, got *http.Response, s secrets) {
	t.Helper()
	for name, want := range map[string]string{"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin", "X-Content-Type-Options": "nosniff"} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %s is %q", what, name, got.Header.Get(name))
		}
	}
	if p := got.Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || !strings.Contains(p, "frame-ancestors 'none'") {
		t.Errorf("%s: the policy is %q", what, p)
	}
	text := new(strings.Builder)
	_ = got.Header.Write(text)
	_, _ = io.Copy(text, got.Body)
	if strings.Contains(text.String(), s.session) || strings.Contains(text.String(), s.place) || strings.Contains(text.String(), "Access-Control-Allow") || strings.Contains(text.String(), "Set-Cookie") {
		t.Errorf("%s: the answer gives away\n%s", what, text)
	}
}

// TestToken: the token lets one browser in, of a user who may see the page; whoever tries it
// otherwise does not use it up.
func TestToken(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("connections of other users need root")
	}
	s, _, _ := served(t, "127.0.0.1:0")
	at, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]call{
		"another user":  {uid: privatetest.Nobody, method: "GET", path: at.RequestURI()},
		"another page":  {uid: amy, method: "GET", path: at.RequestURI(), origin: "http://evil.example"},
		"another name":  {uid: amy, method: "GET", path: at.RequestURI(), host: "evil.example"},
		"a wrong token": {uid: amy, method: "GET", path: at.RequestURI() + "x"},
		"a post":        {uid: amy, method: "POST", path: at.RequestURI()},
		"only a look":   {uid: amy, method: "HEAD", path: at.RequestURI()},
	} {
		if got := c.send(t, at.Host); got.StatusCode == http.StatusSeeOther {
			t.Errorf("%s is let in", name)
		}
	}
	enter(t, s)
	if got := (call{uid: amy, method: "GET", path: at.RequestURI()}).send(t, at.Host); got.StatusCode != http.StatusForbidden {
		t.Errorf("the token again: %s", got.Status)
	}
}

// TestStrangersDoNotCrowd: connections of others that say nothing keep nobody out.
func TestStrangersDoNotCrowd(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("connections of other users need root")
	}
	s, _, _ := served(t, "127.0.0.1:0")
	at, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	var silent []net.Conn
	for range 100 {
		silent = append(silent, privatetest.Dialed(t, privatetest.Nobody, at.Host))
	}
	enter(t, s)
	closed := 0
	for _, c := range silent[50:] { // before the limit is reached none is
		if _, err := c.Read(make([]byte, 1)); err != nil {
			closed++
		}
	}
	if closed != 50 {
		t.Errorf("of 50 connections too many %d are closed", closed)
	}
	// Those that came first are not: time alone has closed none.
	_ = silent[0].SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := silent[0].Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the first connection: %v", err)
	}
}

// TestCalls: what is passed on is what the page calls.
func TestCalls(t *testing.T) {
	called := map[string]bool{}
	err := filepath.WalkDir("assets", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".js" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`\b(?:call|stream|act)\('(\w+)'`).FindAllStringSubmatch(string(text), -1) {
			called[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := slices.Sorted(maps.Keys(called)); !slices.Equal(ui.Calls(), want) {
		t.Errorf("passed on are %q, called %q", ui.Calls(), want)
	}
}
