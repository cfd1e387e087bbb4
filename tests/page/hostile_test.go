package page

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/plumb-net/plumb/plugins/private/privatetest"
)

// stranger is a server of another user, on another port of the same host. It keeps all that
// browsers send to it, and shows a page that attacks the one of agentctl ui.
type stranger struct {
	url  string
	mu   sync.Mutex // guards sent
	sent []string
}

func newStranger(t *testing.T, attack string) *stranger {
	t.Helper()
	s := &stranger{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := new(strings.Builder)
		_ = r.Write(text)
		s.mu.Lock()
		s.sent = append(s.sent, text.String())
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<!doctype html><title>stranger</title><body><script>%s</script>", attack)
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

func (s *stranger) got() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.sent, "\n")
}

// attack tries everything that a page can send to another server, with all that the browser has.
// Even the place of the page is known to it.
const attack = `(async () => {
  const at = %q, tries = [];
  const body = JSON.stringify({ key: 'netns/stolen', text: '{}' });
  for (const path of ['/ui/', '/plumb.api.v1.Agent/Put', '%[2]s/plumb.api.v1.Agent/Put', '%[2]s/plumb.api.v1.Agent/Map', '%[2]s/ui/parse']) {
    for (const mode of ['no-cors', 'cors']) {
      for (const type of ['text/plain', 'application/json']) {
        const init = { method: 'POST', mode, credentials: 'include', body, headers: { 'Content-Type': type } };
        tries.push(fetch(at + path, init).then(async (r) => mode === 'cors' ? 'read ' + await r.text() : '', () => ''));
      }
    }
  }
  const frame = document.createElement('iframe');
  frame.src = at + '%[2]s/ui/';
  const framed = new Promise((done) => { frame.onload = done; });
  const form = document.createElement('form');
  form.method = 'post';
  form.enctype = 'text/plain';
  form.target = 'other';
  form.action = at + '%[2]s/plumb.api.v1.Agent/Put';
  document.body.append(frame, form);
  const stolen = (await Promise.all(tries)).filter(Boolean);
  await framed;
  try {
    stolen.push('frame ' + frame.contentWindow.document.body.innerText);
  } catch { /* of another origin */ }
  document.title = 'done' + stolen.map((s) => ' ' + s).join('');
})()`

// TestHostilePort: a page of another port of this host, shown by the same browser, gets nothing by
// which it could act, and can do nothing itself.
func TestHostilePort(t *testing.T) {
	h := town(t)
	p := tab(t)
	at := serve(t, h.CtlCommand(context.Background()))
	p.visit(at)
	where, err := url.Parse(eval[string](p, `location.href`))
	if err != nil {
		t.Fatal(err)
	}
	if where.Fragment != "" || where.RawQuery != "" {
		t.Errorf("the address of the page shows %s", where)
	}
	session := eval[string](p, `sessionStorage.getItem(Object.keys(sessionStorage)[0])`)
	if len(session) < 20 {
		t.Fatalf("the page has no session: %q", session)
	}
	place := strings.TrimSuffix(where.Path, "/ui/")
	before := string(post(t, h, "List", `{"targets":["netns"]}`))

	evil := newStranger(t, fmt.Sprintf(attack, where.Scheme+"://"+where.Host, place))
	other := tab(t)
	other.ignore.Store(true) // what is refused is told as an error
	other.do(chromedp.Navigate(evil.url))
	other.until("the attack is over", `document.title.startsWith('done')`)
	if got := eval[string](other, `document.title`); got != "done" {
		t.Errorf("the other page has got %s", got)
	}
	if after := string(post(t, h, "List", `{"targets":["netns"]}`)); after != before {
		t.Errorf("the other page has changed what is wanted:\n%s", after)
	}
	// A link from the page to another one tells nothing of it either.
	p.ignore.Store(true)
	eval[bool](p, fmt.Sprintf(`location.assign(%q), true`, evil.url+"/from-the-page"))
	p.until("the other page is shown", `document.title.startsWith('done')`)
	token, _ := url.Parse(at)
	for name, secret := range map[string]string{"session": session, "place": place[1:], "token": token.Query().Get("token")} {
		if strings.Contains(evil.got(), secret) {
			t.Errorf("the other port was sent the %s:\n%s", name, evil.got())
		}
	}
	if strings.Contains(evil.got(), "Cookie:") || strings.Contains(evil.got(), "Referer: "+where.Scheme+"://"+where.Host) {
		t.Errorf("the other port was sent\n%s", evil.got())
	}
	if !strings.Contains(evil.got(), "/from-the-page") {
		t.Errorf("the link was not followed:\n%s", evil.got())
	}
}

// TestHostileUser: another user of the host, who has got the token, the place and the session, is
// refused by what the kernel says of his connections, and does not use up the token.
func TestHostileUser(t *testing.T) {
	h := town(t)
	p := tab(t)
	at := serve(t, h.CtlCommand(context.Background()))
	his := http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return privatetest.Dial(ctx, privatetest.Nobody, address)
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer his.CloseIdleConnections()
	try := func(what, method, url, session string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Plumb-Session", session)
		got, err := his.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got.Body.Close()
		if got.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", what, got.Status)
		}
	}
	try("the token", http.MethodGet, at, "")
	p.visit(at)
	page := strings.SplitN(eval[string](p, `location.href`), "/ui/", 2)[0]
	session := eval[string](p, `sessionStorage.getItem(Object.keys(sessionStorage)[0])`)
	for _, path := range []string{"/ui/", "/ui/app.js", "/ui/parse", "/plumb.api.v1.Agent/Map", "/plumb.api.v1.Agent/Apply", "/plumb.api.v1.Agent/GetKV", "/metrics"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			try(method+" "+path, method, page+path, session)
		}
	}
	// The page itself may be loaded again, with the session that it has.
	p.do(chromedp.Reload())
	p.until("the map is drawn", `document.body.dataset.drawn > 0`)
}

// TestBrowserIsStarted: the browser that agentctl ui starts comes in by a file, and processes of
// other users see the token nowhere.
func TestBrowserIsStarted(t *testing.T) {
	h := town(t)
	dir := t.TempDir()
	told := filepath.Join(dir, "told")
	script := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$1\" > %[1]s.new && mv %[1]s.new %[1]s\n", told)
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	ctl := h.CtlCommand(context.Background())
	terminal := exec.Command("script", "--quiet", "--return", "--command", "exec "+strings.Join(append(ctl.Args, "ui"), " "), "/dev/null")
	terminal.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "DISPLAY=:9")
	in, err := terminal.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := terminal.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			_, _ = in.Write([]byte{3}) // Ctrl-C
			_ = terminal.Wait()
		}
	}
	t.Cleanup(end)
	var file string
	h.Eventually("the browser is started", func() error {
		text, err := os.ReadFile(told)
		file = strings.TrimSpace(string(text))
		return err
	})
	text, err := os.ReadFile(strings.TrimPrefix(file, "file://"))
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(string(text), "token=")
	token, _, _ = strings.Cut(token, `"`)
	if len(token) < 20 {
		t.Fatalf("the file has no token:\n%s", text)
	}
	lines, err := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'").Output()
	if err != nil && len(lines) == 0 {
		t.Fatal(err)
	}
	if !strings.Contains(string(lines), "--socket") {
		t.Errorf("the other user sees no command line of agentctl:\n%s", lines)
	}
	if strings.Contains(string(lines), token) {
		t.Errorf("the other user sees the token")
	}
	if out, err := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat", strings.TrimPrefix(file, "file://")).CombinedOutput(); err == nil {
		t.Errorf("the other user reads %s", out)
	}
	p := tab(t)
	p.visit(file)
	if got := eval[string](p, `location.href`); !strings.HasPrefix(got, "http://127.0.0.1:") || strings.Contains(got, token) {
		t.Errorf("the file leads to %s", got)
	}
	end()
	if _, err := os.Stat(strings.TrimPrefix(file, "file://")); err == nil {
		t.Errorf("%s stays", file)
	}
}
