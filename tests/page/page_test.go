package page

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/plumb-net/plumb/plugins/access/accesstest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// post calls the API by the socket, as curl does.
func post(t *testing.T, h *host.Host, call, body string) []byte {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", h.Socket())
	}}}
	answer, err := c.Post("http://agent/plumb.api.v1.Agent/"+call, "application/json", bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v, %s", call, err, text)
	}
	return text
}

const site = `intent:
  interface/br0: {bridge: {}, addresses: [10.7.0.1/24]}
  interface/web: {veth: {peer: web-br}, namespace: {netns: blue}, host_name: eth0, addresses: [10.7.0.2/24]}
  interface/web-br: {veth: {peer: web}, master: br0}
  netns/blue: {}
  route/out: {interface: web, destination: default, gateway: 10.7.0.1}
  interface/lost: {tap: {}, namespace: {microservice: shop}}
`

// town is a host with some intent.
func town(t *testing.T) *host.Host {
	t.Helper()
	tab(t) // without Chromium there is nothing to do
	h := host.New(t, host.Options{NoEngine: true})
	h.Start()
	if r := h.CtlInput(site, "apply", "-f", "-", "-m", "a new site"); r.Code != 0 {
		t.Fatal(r.Err)
	}
	h.AwaitConfigured("interface/br0", "interface/web", "interface/web-br", "route/out")
	h.AwaitSettled()
	return h
}

// TestPage is a tour: what is there, why something is not, what happened, and what a file
// would do, each of which somebody new finds by himself.
func TestPage(t *testing.T) {
	h := town(t)
	p := open(t, h.CtlCommand(context.Background()))
	p.until("all is drawn", fmt.Sprintf("document.querySelector(%q)", box("interface/lost")))
	if r := eval[string](p, "document.querySelector('"+`[data-id="interface/lost"]`+"').dataset.state"); r != "pending" {
		t.Errorf("interface/lost is %s", r)
	}

	// Why a container has no network.
	p.click(box("interface/lost"))
	p.says("#details h2", "interface/lost")
	p.says("#roots", "microservice/shop is not there")
	p.says("#blame", "a new site")

	// Search, and filters.
	p.press("/")
	p.press("10.7.0.2")
	p.says("#found", "1 found")
	p.press(enter)
	p.says("#details h2", "address/web/10.7.0.2/24")
	eval[bool](p, `document.querySelector('#search').value = '', document.querySelector('#state').value = '!', document.querySelector('#state').dispatchEvent(new Event('input'))`)
	p.until("what is in order is dim", fmt.Sprintf("document.querySelector(%q).classList.contains('dim') && !document.querySelector(%q).classList.contains('dim')", box("interface/br0"), box("interface/lost")))
	eval[bool](p, `document.querySelector('#state').value = '', document.querySelector('#state').dispatchEvent(new Event('input'))`)

	// What others do is seen at once, and repaired; nobody asks again and again.
	h.Own.IP(t, "link set dev web-br down")
	h.AwaitConfigured("interface/web-br")

	// What a file would do, and doing it.
	file := filepath.Join(t.TempDir(), "more.yaml")
	if err := os.WriteFile(file, []byte("intent:\n  interface/new: {tap: {}}\n  interface/br0: {bridge: {}, mtu: 1400, addresses: [10.7.0.1/24]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.click("#tab-plan")
	p.do(chromedp.SetUploadFiles("#file", []string{file}))
	p.says("#steps", "create interface/new")
	p.until("the map has marks", fmt.Sprintf("document.querySelector(%q)?.dataset.mark === 'created' && document.querySelector(%q).dataset.mark === 'changed'", box("interface/new"), box("interface/br0")))
	if r := h.Ctl("get", "interface/new"); r.Code == 0 {
		t.Errorf("a plan was carried out: %s", r.Out)
	}
	p.click("#apply button")
	p.says("#confirm", "goes back in")
	p.click("#keep")
	p.until("it is confirmed", `document.querySelector('#confirm').hidden`)
	h.AwaitConfigured("interface/new")
	p.until("the map is of now", fmt.Sprintf("document.querySelector('#mode').hidden && document.querySelector(%q)?.dataset.state === 'configured'", box("interface/new")))

	// What a wrong file says.
	eval[bool](p, `document.querySelector('#intent').value = 'intent:\n  interface/x: {dummi: {}}\n', true`)
	p.click("#preview")
	p.says("#planned", "dummi")

	// What changed in the last hour, and how it was.
	p.click("#tab-timeline")
	p.click("#hour")
	p.says("#changes", "interface/new")
	p.until("the map has marks", fmt.Sprintf("document.querySelector(%q)?.dataset.mark === 'created'", box("interface/new")))
	first := eval[string](p, `[...document.querySelectorAll('#moments li')].find((l) => l.innerText.includes('interface/web'))?.dataset.seq ?? ''`)
	p.click(fmt.Sprintf("#moments li[data-seq='%s'] button", first))
	p.says("#mode", "after transaction "+first)
	p.until("the map is of then", fmt.Sprintf("!document.querySelector(%q) && document.querySelector(%q)", box("interface/new"), box("interface/web")))
	p.press(kb.Escape)
	p.until("the map is of now", fmt.Sprintf("document.querySelector(%q)", box("interface/new")))

	// What is taken back.
	p.click("#tab-plan")
	eval[bool](p, `document.querySelector('#intent').value = 'intent:\n  interface/more: {tap: {}}\n', true`)
	p.click("#preview")
	p.says("#steps", "create interface/more")
	p.click("#apply button")
	p.click("#abort")
	p.until("it is taken back", `document.querySelector('#confirm').hidden`)
	if r := h.Ctl("wait", "interface/more", "--for", "gone", "--timeout", "60s"); r.Code != 0 {
		t.Errorf("it is still there: %s%s", r.Out, r.Err)
	}
}

// TestMapIsAskedAgain: a map that could not be fetched, or only in part, is fetched later, also if
// nothing changes any more.
func TestMapIsAskedAgain(t *testing.T) {
	h := town(t)
	p := open(t, h.CtlCommand(context.Background()))
	p.until("all is drawn", fmt.Sprintf("document.querySelector(%q)", box("interface/lost")))
	eval[bool](p, "!!(window.real = window.fetch)")
	for i, c := range []struct{ answer, says string }{
		{`Promise.reject(new TypeError('no answer'))`, "no answer"},
		{`Promise.resolve(new Response('{"boxes":[', {status: 200}))`, "the answer was cut short"},
	} {
		key := fmt.Sprintf("interface/new%d", i)
		eval[bool](p, fmt.Sprintf(`(() => {
			window.fetch = (...call) => String(call[0]).endsWith('/Map') ? %s : window.real(...call);
			return true;
		})()`, c.answer))
		h.Put(key, `{"tap":{}}`)
		h.AwaitConfigured(key)
		h.AwaitSettled()
		p.says("#trouble", c.says)
		eval[bool](p, "!!(window.fetch = window.real)")
		p.until("the map is there", fmt.Sprintf("document.querySelector(%q)?.dataset.state === 'configured' && document.querySelector('#trouble').hidden", box(key)))
	}
}

// TestNewUser: who has never seen the page finds by what it says, and without scrolling, why a
// container has no network, what changed in the last hour, and what a file would do.
func TestNewUser(t *testing.T) {
	p := visitShop(t)
	p.use("cart") // stands out
	p.reads("no container with the service label cart runs")
	p.reads("start the container runtime")

	p.use("Timeline")
	p.use("What changed in the last hour")
	p.reads("address/db/10.7.0.6/24")

	file := filepath.Join(t.TempDir(), "cache.yaml")
	if err := os.WriteFile(file, []byte(change), 0o600); err != nil {
		t.Fatal(err)
	}
	p.use("Plan")
	p.reads("Paste it, or drop a file here")
	p.do(chromedp.SetUploadFiles("#file", []string{file}))
	p.reads("6 steps")
	p.reads("what cache.yaml would do")
	p.reads("address/uplink/192.0.2.2/24")
}

// TestKeyboard: all can be done without a mouse.
func TestKeyboard(t *testing.T) {
	h := town(t)
	p := open(t, h.CtlCommand(context.Background()))
	eval[bool](p, `document.querySelector('#map .box[tabindex="0"]').focus(), true`)
	p.press(kb.ArrowDown)
	p.until("another box has the focus", `document.activeElement.dataset?.id && document.activeElement.dataset.id !== 'host'`)
	at := eval[string](p, `document.activeElement.dataset.id`)
	p.press(enter)
	p.says("#details h2", at)
	eval[bool](p, `document.querySelector('#tab-details').focus(), true`)
	p.press(kb.ArrowRight)
	p.until("the timeline is shown", `!document.querySelector('#timeline').hidden && document.activeElement.id === 'tab-timeline'`)
	p.press(kb.ArrowRight)
	p.press(kb.Tab)
	p.until("the panel has the focus", `document.activeElement.id === 'plan'`)
	p.press(kb.Tab)
	p.press("intent:\n  interface/k: {tap: {}}\n")
	for range 2 {
		p.press(kb.Tab)
	}
	p.press(enter)
	p.says("#steps", "create interface/k")
}

// TestShowsWhatTheAPISays: whatever happens, the page ends up with what the API says, by
// itself.
func TestShowsWhatTheAPISays(t *testing.T) {
	h := town(t)
	p := open(t, h.CtlCommand(context.Background()))
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	names := []string{"a", "b", "c", "d", "e"}
	for range 12 {
		for range 1 + rng.IntN(3) {
			name := names[rng.IntN(len(names))]
			switch rng.IntN(6) {
			case 0:
				_ = h.Ctl("delete", "interface/"+name)
			case 1:
				_ = h.CtlInput(fmt.Sprintf(`{"tap":{},"addresses":["10.8.%d.1/24"]}`, rng.IntN(200)), "put", "interface/"+name, "-f", "-")
			case 2:
				_ = h.CtlInput(`{"tap":{},"namespace":{"microservice":"gone"}}`, "put", "interface/"+name, "-f", "-")
			case 3:
				_ = h.CtlInput(fmt.Sprintf(`{"interface":%q,"destination":"10.9.%d.0/24"}`, name, rng.IntN(200)), "put", "route/"+name, "-f", "-")
			case 4:
				_ = h.Ctl("pause", "interface/"+name, "--reason", "test")
			case 5:
				_ = h.Ctl("resume", "interface/"+name)
			}
		}
		h.AwaitSettled()
		var shown, said []drawn
		h.Eventually("the page shows what the API says", func() error {
			shown, said = p.boxes(), boxesOfTheAPI(t, h)
			if !slices.Equal(shown, said) {
				return fmt.Errorf("the page shows\n%v\nthe API says\n%v", shown, said)
			}
			return nil
		})
	}
}

// TestManyInterfaces: of 500 one that changes touches a few elements, and no more.
func TestManyInterfaces(t *testing.T) {
	tab(t)
	h := host.New(t, host.Options{NoEngine: true})
	h.Start()
	var intent strings.Builder
	intent.WriteString("intent:\n")
	for i := range 250 {
		fmt.Fprintf(&intent, "  interface/d%03d: {tap: {}, enabled: false}\n  interface/w%03d: {tap: {}, namespace: {microservice: m%d}}\n", i, i, i%50)
	}
	if r := h.CtlInput(intent.String(), "apply", "-f", "-"); r.Code != 0 {
		t.Fatal(r.Err)
	}
	h.AwaitSettled()
	p := open(t, h.CtlCommand(context.Background()))
	p.until("all are drawn", `document.querySelectorAll('#map .box').length > 550`)
	h.Eventually("the page is at rest", func() error {
		if !slices.Equal(p.boxes(), boxesOfTheAPI(t, h)) {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	before := eval[int](p, `Number(document.body.dataset.writes)`)
	if r := h.Ctl("pause", "interface/d007", "--reason", "test"); r.Code != 0 {
		t.Fatal(r.Err)
	}
	p.until("it is shown", fmt.Sprintf("document.querySelector(%q).dataset.state === 'paused'", box("interface/d007")))
	if writes := eval[int](p, `Number(document.body.dataset.writes)`) - before; writes > 20 {
		t.Errorf("one state of 500 took %d changes of elements", writes)
	}

	// Many changes are drawn by few calls, one at a time. How fluid it is depends on the machine.
	eval[bool](p, `frames = [], performance.clearResourceTimings(), (function next(at) { frames.push(at); requestAnimationFrame(next); })(performance.now()), true`)
	for i := range 20 {
		if r := h.Ctl("pause", fmt.Sprintf("interface/d%03d", 100+i), "--reason", "test"); r.Code != 0 {
			t.Fatal(r.Err)
		}
	}
	if r := h.CtlInput(strings.ReplaceAll(intent.String(), "tap: {}", "tap: {}, mtu: 1400"), "apply", "-f", "-"); r.Code != 0 {
		t.Fatal(r.Err)
	}
	p.until("all is shown", fmt.Sprintf("document.querySelector(%q).dataset.state === 'paused'", box("interface/d119")))
	h.AwaitSettled()
	h.Eventually("the page is at rest", func() error {
		if !slices.Equal(p.boxes(), boxesOfTheAPI(t, h)) {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	for _, name := range []string{"Map", "AgentStatus"} {
		calls := eval[[]struct{ StartTime, ResponseEnd, DecodedBodySize float64 }](p, fmt.Sprintf(`performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/%s')).map((e) => e.toJSON())`, name))
		for i, c := range calls {
			if i > 0 && c.StartTime < calls[i-1].ResponseEnd {
				t.Errorf("%s is called twice at once", name)
			}
		}
		t.Logf("%s was called %d times, and had %.0f bytes", name, len(calls), calls[len(calls)-1].DecodedBodySize)
	}
	spans := eval[[]float64](p, `frames.slice(1).map((at, i) => at - frames[i]).sort((a, b) => a - b)`)
	t.Logf("of %d frames the middle one took %.0f ms, the longest %.0f ms", len(spans), spans[len(spans)/2], spans[len(spans)-1])
}

// TestFits: the map is seen whole in any window until somebody moves it.
func TestFits(t *testing.T) {
	p := visitShop(t)
	whole := `(() => {
  const map = document.querySelector('#map').getBoundingClientRect();
  return [...document.querySelectorAll('#map .box > rect')].every((r) => {
    const b = r.getBoundingClientRect();
    return b.left >= map.left && b.right <= map.right && b.top >= map.top && b.bottom <= map.bottom;
  });
})()`
	for _, size := range [][2]int64{{1280, 720}, {600, 900}, {1920, 1080}} {
		p.do(chromedp.EmulateViewport(size[0], size[1]))
		p.until(fmt.Sprintf("at %d x %d all boxes are seen", size[0], size[1]), whole)
	}
	for range 6 {
		p.click("#in")
	}
	p.do(chromedp.EmulateViewport(600, 900))
	frames := "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(" + whole + "))))"
	if run(p, chromedp.Evaluate[bool](frames, chromedp.EvalAwaitPromise)) {
		t.Error("a map that was enlarged is fitted again")
	}
	p.click("#fit")
	p.until("all boxes are seen", whole)
}

// TestPolicy: what somebody gets into the page does not run, and brings nothing from elsewhere.
func TestPolicy(t *testing.T) {
	p := visitShop(t)
	p.provoked.Store(true)
	eval[bool](p, `(() => {
  addEventListener('securitypolicyviolation', (e) => (window.refused ??= []).push(e.effectiveDirective));
  const script = document.createElement('script');
  script.textContent = 'window.ran = true';
  const image = document.createElement('img');
  image.src = 'http://127.0.0.2:1/x.png';
  document.body.append(script, image);
  document.body.insertAdjacentHTML('beforeend', '<b style="color: red" onclick="window.ran = true">x</b>');
  document.body.lastChild.click();
  fetch('http://127.0.0.2:1/').catch(() => {});
})(), true`)
	p.until("all is refused", `window.refused?.length >= 5`)
	refused := eval[[]string](p, `window.refused.sort()`)
	if want := []string{"connect-src", "img-src", "script-src-attr", "script-src-elem", "style-src-attr"}; !slices.Equal(refused, want) {
		t.Errorf("refused are %q, want %q", refused, want)
	}
	if eval[bool](p, `'ran' in window`) {
		t.Error("it has run")
	}
}

// TestViewer: who may only look is offered nothing else, and is refused it all the same.
func TestViewer(t *testing.T) {
	tab(t)
	dir, ca := t.TempDir(), accesstest.New(t)
	server := ca.Issue(accesstest.Cert{Name: "agent"})
	address := fmt.Sprintf("127.%d.%d.1:7443", 1+rand.IntN(254), rand.IntN(255))
	h := host.New(t, host.Options{NoEngine: true, Args: []string{
		"--listen", address, "--tls-cert", server.Cert, "--tls-key", server.Key, "--tokens", filepath.Join(dir, "tokens"),
	}})
	r := h.CtlFrom(nil, "token", "create", "vera", "--role", "viewer")
	for name, text := range map[string]string{"token": r.Out, "tokens": r.Err} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.Start()
	env := "XDG_CONFIG_HOME=" + dir
	if r := h.CtlFrom([]string{env}, "context", "set", "vera", "--address", address, "--ca", ca.File, "--server-name", "127.0.0.1", "--token-file", filepath.Join(dir, "token")); r.Code != 0 {
		t.Fatal(r.Err)
	}
	ui := h.CtlCommand(context.Background())
	ui.Args = []string{ui.Args[0], "--context", "vera"}
	ui.Env = append(os.Environ(), env)
	p := open(t, ui)
	p.click("#tab-plan")
	eval[bool](p, `document.querySelector('#intent').value = 'intent:\n  interface/x: {tap: {}}\n', true`)
	p.click("#preview")
	p.says("#steps", "create interface/x")
	if !eval[bool](p, `document.querySelector('#apply').hidden`) {
		t.Error("a viewer is offered to apply")
	}
	eval[bool](p, `document.querySelector('#apply').hidden = false, true`)
	p.click("#apply button")
	p.says("#planned", "vera is viewer; Apply takes operator")
}
