package ui

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// cookie holds the session. Cookies do not know ports, so another page of this host could
// send it, but SameSite and Origin keep such requests out.
const cookie = "plumb-ui"

// Gate lets one browser in: the one that comes first with the token. It is for a listener on
// loopback, where every user and every page that a browser shows can connect.
type Gate struct {
	host    string // and port, as browsers must name it
	token   string
	session string
	next    http.Handler
	mu      sync.Mutex // guards used
	used    bool
}

// NewGate makes a gate before a handler that is reached at an address, such as
// 127.0.0.1:8080.
func NewGate(address string, next http.Handler) *Gate {
	return &Gate{host: address, token: rand.Text(), session: rand.Text(), next: next}
}

// URL is the address with the token, which is good for one use.
func (g *Gate) URL() string {
	return (&url.URL{Scheme: "http", Host: g.host, Path: Path, RawQuery: url.Values{"token": {g.token}}.Encode()}).String()
}

// ServeHTTP implements http.Handler.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch origin := r.Header.Get("Origin"); {
	case r.Host != g.host: // else any name that leads to loopback would do
		http.Error(w, "this page is at http://"+g.host, http.StatusMisdirectedRequest)
		return
	case origin != "" && origin != "http://"+g.host:
		http.Error(w, "another page asks", http.StatusForbidden)
		return
	}
	if token := r.URL.Query().Get("token"); token != "" && r.URL.Path == Path {
		if !g.use(token) {
			http.Error(w, "this address was used already, or is wrong; run agentctl ui again", http.StatusForbidden)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: g.cookie(), Value: g.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		w.Header().Set("Referrer-Policy", "no-referrer")
		http.Redirect(w, r, Path, http.StatusSeeOther)
		return
	}
	if c, err := r.Cookie(g.cookie()); err != nil || subtle.ConstantTimeCompare([]byte(c.Value), []byte(g.session)) != 1 {
		http.Error(w, "open the address that agentctl ui has printed", http.StatusForbidden)
		return
	}
	r.Header.Del("Cookie") // the agent has no need of it
	g.next.ServeHTTP(w, r)
}

// cookie is its name: each port has its own, so that two pages do not end each other.
func (g *Gate) cookie() string { return cookie + "-" + g.host[strings.LastIndexByte(g.host, ':')+1:] }

// use reports whether the token is right and has not been used.
func (g *Gate) use(token string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.used || subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) != 1 {
		return false
	}
	g.used = true
	return true
}
