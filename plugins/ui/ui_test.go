package ui_test

import (
	"io"
	"net/http"
	"net/http/httptest"
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

// TestParseIsBounded: a file whose aliases multiply, or that is too long, is refused by name
// and with a remedy.
func TestParseIsBounded(t *testing.T) {
	h := ui.Handler()
	bomb := "- {key: interface/a, value: &a {alias: " + strings.Repeat("x", 100_000) + "}}\n" +
		strings.Repeat("- {key: interface/b, value: *a}\n", 10_000)
	got := ask(h, "POST", "/ui/parse?name=net.yaml", bomb)
	text, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "net.yaml:") || !strings.Contains(string(text), "aliases") {
		t.Errorf("%d %.200s", got.StatusCode, text)
	}
	got = ask(h, "POST", "/ui/parse?name=net.yaml", strings.Repeat("#", 9<<20))
	if text, err = io.ReadAll(got.Body); err != nil || got.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "8 MiB") {
		t.Errorf("%d %.200s", got.StatusCode, text)
	}
}
