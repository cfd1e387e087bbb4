package ui

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// sessionHeader carries the session. A script of the page adds it; a browser sends none of it by
// itself, neither to this server nor to another one of this host.
const sessionHeader = "Plumb-Session"

// gate lets in one browser of a user who may see the page: the one that comes first with the token.
//
//	GET /ui/?token=TOKEN          once ─► 303 /PLACE/ui/#session=SESSION
//	GET /PLACE/ui/app.js          the program of the page, in which nothing is secret
//	POST /PLACE/ui/parse          with the session in a header
//	POST /PLACE/plumb.api.v1...   likewise
//
// TOKEN, PLACE and SESSION are random. A browser puts the part behind # into no request and into no
// Referer, and the page removes it from the address. So whoever learns the address of an open page
// has no session, and all three are void once the server ends.
type gate struct {
	host                  string // and port, as browsers must name it
	users                 map[int]bool
	token, place, session string
	program, calls        http.Handler
	mu                    sync.Mutex // guards used
	used                  bool
}

func newGate(host string, users []int, program, calls http.Handler) *gate {
	g := &gate{
		host: host, users: map[int]bool{0: true}, program: program, calls: calls,
		token: rand.Text(), place: rand.Text(), session: rand.Text(),
	}
	for _, uid := range users {
		g.users[uid] = true
	}
	return g
}

// url returns the address with the token.
func (g *gate) url() string {
	return (&url.URL{Scheme: "http", Host: g.host, Path: Path, RawQuery: url.Values{"token": {g.token}}.Encode()}).String()
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	if code, err := g.stranger(r); err != nil {
		h.Set("Connection", "close")
		http.Error(w, err.Error(), code)
		return
	}
	if token := r.URL.Query().Get("token"); token != "" && r.URL.Path == Path && r.Method == http.MethodGet {
		g.enter(w, r, token)
		return
	}
	path, ok := g.within(r.URL.Path)
	if !ok {
		http.Error(w, "open the address that agentctl ui has printed", http.StatusForbidden)
		return
	}
	next := g.program
	if r.Method != http.MethodGet || !strings.HasPrefix(path, Path) {
		if next = g.calls; !same(r.Header.Get(sessionHeader), g.session) {
			http.Error(w, "this page has no session; run agentctl ui again and open the address that it prints", http.StatusForbidden)
			return
		}
	}
	next.ServeHTTP(w, bare(r, path))
}

// stranger returns why a request is none of the page, before anything in it is looked at that may
// be secret.
func (g *gate) stranger(r *http.Request) (code int, err error) {
	switch who, ok := r.Context().Value(visitorKey{}).(*visitor); {
	case !ok:
		return http.StatusForbidden, fmt.Errorf("the user of this connection is not known")
	case who.err != nil:
		return http.StatusForbidden, fmt.Errorf("this page is for root and the user who started agentctl ui: %w", who.err)
	case !g.users[who.uid]:
		return http.StatusForbidden, fmt.Errorf("this page is for root and the user who started agentctl ui; the connection is of user %d", who.uid)
	}
	switch origin := r.Header.Get("Origin"); {
	case r.Host != g.host: // another name that leads to loopback would be of another page
		return http.StatusMisdirectedRequest, fmt.Errorf("this page is at http://%s", g.host)
	case origin != "" && origin != "http://"+g.host:
		return http.StatusForbidden, fmt.Errorf("requests of other pages are refused")
	}
	return 0, nil
}

// enter lets the first browser with the token in.
func (g *gate) enter(w http.ResponseWriter, r *http.Request, token string) {
	if !g.use(token) {
		http.Error(w, "this address was used already, or is wrong; run agentctl ui again", http.StatusForbidden)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	to := url.URL{Path: "/" + g.place + Path, Fragment: url.Values{"session": {g.session}}.Encode()}
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}

// within returns the path below the place.
func (g *gate) within(path string) (string, bool) {
	place, rest, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return "/" + rest, ok && same(place, g.place)
}

// use reports whether the token is right and has not been used.
func (g *gate) use(token string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.used || !same(token, g.token) {
		return false
	}
	g.used = true
	return true
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// bare is the request at another path and without what proves who sends it: the agent has no need
// of it, and is to judge by what agentctl adds.
func bare(r *http.Request, path string) *http.Request {
	out := r.Clone(r.Context())
	out.URL.Path, out.URL.RawPath = path, ""
	for _, name := range []string{sessionHeader, "Authorization", "Cookie", "Referer"} {
		out.Header.Del(name)
	}
	return out
}
