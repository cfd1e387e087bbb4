package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/ui"
)

const here = "127.0.0.1:8080"

// ask sends a request to a handler; more are pairs of a header and its value.
func ask(h http.Handler, method, target, body string, more ...string) *http.Response {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = here
	for i := 0; i < len(more); i += 2 {
		if more[i] == "Host" {
			r.Host = more[i+1]
		}
		r.Header.Set(more[i], more[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// TestGate: one browser comes in, by the token, once; no other name leads in, and no other
// page.
func TestGate(t *testing.T) {
	inside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") != "" {
			t.Error("the cookie goes on to the agent")
		}
	})
	g := ui.NewGate(here, inside)
	at, err := url.Parse(g.URL())
	if err != nil || at.Host != here {
		t.Fatalf("%s: %v", g.URL(), err)
	}
	is := func(what string, want int, got *http.Response) {
		t.Helper()
		if got.StatusCode != want {
			t.Errorf("%s: %d, want %d", what, got.StatusCode, want)
		}
	}
	is("without anything", http.StatusForbidden, ask(g, "GET", "/ui/", ""))
	is("a wrong token", http.StatusForbidden, ask(g, "GET", "/ui/?token=x", ""))
	is("by another name", http.StatusMisdirectedRequest, ask(g, "GET", at.RequestURI(), "", "Host", "evil.example:8080"))
	is("from another page", http.StatusForbidden, ask(g, "GET", at.RequestURI(), "", "Origin", "http://evil.example"))
	first := ask(g, "GET", at.RequestURI(), "")
	is("the token", http.StatusSeeOther, first)
	is("the token again", http.StatusForbidden, ask(g, "GET", at.RequestURI(), ""))
	cookies := first.Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || first.Header.Get("Location") != "/ui/" {
		t.Fatalf("cookies %v, to %s", cookies, first.Header.Get("Location"))
	}
	cookie := cookies[0].Name + "=" + cookies[0].Value
	is("with the cookie", http.StatusOK, ask(g, "POST", "/plumb.api.v1.Agent/Get", "{}", "Cookie", cookie, "Origin", "http://"+here))
	is("with the cookie from another page", http.StatusForbidden, ask(g, "POST", "/plumb.api.v1.Agent/Get", "{}", "Cookie", cookie, "Origin", "http://evil.example"))
	is("with the cookie by another name", http.StatusMisdirectedRequest, ask(g, "GET", "/ui/", "", "Cookie", cookie, "Host", "evil.example:8080"))
	is("with a wrong cookie", http.StatusForbidden, ask(g, "GET", "/ui/", "", "Cookie", cookie+"x"))
}

// TestAssets: all that the page names is there, with the policy, and nothing of it is of
// another place.
func TestAssets(t *testing.T) {
	h := ui.Handler()
	for name, kind := range map[string]string{
		"": "text/html", "app.js": "text/javascript", "api.js": "text/javascript", "map.js": "text/javascript", "style.css": "text/css", "icon.svg": "image/svg+xml",
	} {
		got := ask(h, "GET", "/ui/"+name, "")
		if got.StatusCode != http.StatusOK || !strings.HasPrefix(got.Header.Get("Content-Type"), kind) || !strings.HasPrefix(got.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%q: %d %v", name, got.StatusCode, got.Header)
		}
		if again := ask(h, "GET", "/ui/"+name, "", "If-None-Match", got.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("%q again: %d", name, again.StatusCode)
		}
	}
	if got := ask(h, "GET", "/ui/../ui.go", ""); got.StatusCode == http.StatusOK {
		t.Error("a file that is none of the page is served")
	}
}

// TestParse: intent is read as agentctl reads it, and what is wrong is said with its place.
func TestParse(t *testing.T) {
	h := ui.Handler()
	for _, c := range []struct {
		text, want string
		code       int
	}{
		{"intent:\n  netns/a: {}\n", `{"items":[{"key":"netns/a","text":"{}","where":"site.yaml:2"}]}`, http.StatusOK},
		{"", `{"items":[]}`, http.StatusOK},
		{"intent: [", `"message":"site.yaml`, http.StatusBadRequest},
	} {
		got := ask(h, "POST", "/ui/parse?name=../site.yaml", c.text)
		body := new(strings.Builder)
		_ = got.Write(body)
		if got.StatusCode != c.code || !strings.Contains(body.String(), c.want) {
			t.Errorf("%q: %s", c.text, body)
		}
	}
}
