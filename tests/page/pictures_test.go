package page

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	browserpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

var rewrite = flag.Bool("rewrite", false, "take the pictures of docs/pictures anew")

// shop is the scene of the pictures: a router, two namespaces behind a bridge, a
// third one that waits for its container, and a link that somebody has paused.
const shop = `intent:
  netns/web: {}
  netns/db: {}
  interface/uplink:   {tap: {}, addresses: [192.0.2.2/24]}
  interface/br0:      {bridge: {}, addresses: [10.7.0.1/24]}
  interface/web:      {namespace: {netns: web}, host_name: eth0, addresses: [10.7.0.2/24], veth: {peer: web-port}}
  interface/web-port: {master: br0, veth: {peer: web}}
  interface/db:       {namespace: {netns: db}, host_name: eth0, addresses: [10.7.0.3/24], veth: {peer: db-port}}
  interface/db-port:  {master: br0, veth: {peer: db}}
  interface/cart:      {namespace: {microservice: cart}, host_name: eth0, addresses: [10.7.0.4/24], veth: {peer: cart-port}}
  interface/cart-port: {master: br0, veth: {peer: cart}}
  route/world:        {interface: uplink, destination: default, gateway: 192.0.2.1}
  route/web-out:      {interface: web, destination: default, gateway: 10.7.0.1}
  route/db-out:       {interface: db, destination: default, gateway: 10.7.0.1}
  route/cart-out:     {interface: cart, destination: default, gateway: 10.7.0.1}
`

// moved is what happens to it.
const moved = `intent:
  interface/db: {namespace: {netns: db}, host_name: eth0, addresses: [10.7.0.6/24], veth: {peer: db-port}}
`

// change is the file whose plan is in the pictures.
const change = `intent:
  netns/cache: {}
  interface/cache:
    namespace: {netns: cache}
    host_name: eth0
    addresses: [10.7.0.5/24]
    veth: {peer: cache-port}
  interface/cache-port:
    master: br0
    veth: {peer: cache}
  interface/uplink:
    tap: {}
    addresses: [192.0.2.3/24]
`

// views are what is in the pictures, each with the way to it from the one before.
var views = []struct {
	name string
	show func(p *page)
}{
	{"map", func(*page) {}},
	{"details", func(p *page) {
		p.click(box("interface/cart"))
		p.says("#roots", "microservice/cart")
	}},
	{"timeline", func(p *page) {
		p.click("#tab-timeline")
		p.until("the list is there", `document.querySelectorAll('#moments li').length > 2`)
		site := eval[string](p, `[...document.querySelectorAll('#moments li')].find((l) => l.innerText.includes('the shop')).dataset.seq`)
		p.click(fmt.Sprintf("#moments li[data-seq='%s'] button + button", site))
		p.says("#changes", "interface/db")
		p.says("#counts", "removed") // the map comes after the list
	}},
	{"plan", func(p *page) {
		p.press(kb.Escape)
		p.until("the map is of now", `document.querySelector('#mode').hidden`)
		p.click("#tab-plan")
		p.paste(change)
		p.click("#preview")
		// Chromium cuts what is open when a network of its host changes: then it is asked again.
		p.until("there is a plan", `document.querySelector('#planned .error') ? (document.querySelector('#preview').click(), false) : !!document.querySelector('#steps')`)
		p.says("#steps", "create interface/cache")
	}},
}

// still makes the same of the page each time: one font, no caret, and for what differs from run
// to run a text that does not.
const still = `
document.adoptedStyleSheets = [new CSSStyleSheet()];
document.adoptedStyleSheets[0].replaceSync('* { font-family: "DejaVu Sans" !important; caret-color: transparent !important; } pre, textarea { font-family: "DejaVu Sans Mono" !important; }');
document.querySelector('#label').textContent = 'edge1';
document.activeElement.blur();
for (const h of document.querySelectorAll('#details h3')) {
  if (h.textContent === 'Metadata') {
    h.hidden = h.nextElementSibling.hidden = true; // indexes of links
  }
}
for (const row of document.querySelectorAll('#moments li, #history li')) {
  row.hidden = !row.innerText.includes('agentctl'); // what the kernel reports comes as it likes
}
const texts = document.createTreeWalker(document.querySelector('#side'), NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const t = texts.currentNode;
  const fixed = t.data.replace(/#\d+/, '#7').replace(/(transaction|process|revision) \d+/g, '$1 7');
  if (t.data !== fixed) {
    t.data = fixed;
  }
}
`

// clock has each time be told as the same one.
const clock = `Date.prototype.toLocaleString = () => '11/26/26, 10:15:00 AM'`

// visitShop is the page of the scene.
func visitShop(t *testing.T) *page {
	t.Helper()
	p := tab(t)
	h := host.New(t, host.Options{NoEngine: true})
	h.Start()
	for _, c := range []struct{ intent, why string }{{shop, "the shop"}, {moved, "the database moves"}} {
		if r := h.CtlInput(c.intent, "apply", "-f", "-", "-m", c.why); r.Code != 0 {
			t.Fatal(r.Err)
		}
		h.AwaitSettled()
	}
	call(p, browserpage.AddScriptToEvaluateOnNewDocument, browserpage.AddScriptToEvaluateOnNewDocumentParams{Source: clock})
	p.do(chromedp.EmulateViewport(1280, 720))
	p.visit(serve(t, h.CtlCommand(context.Background())))
	return p
}

// prefer has the desktop be light or dark.
func (p *page) prefer(scheme string) {
	p.t.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// TestPictures: the page looks as in docs/pictures, light and dark.
func TestPictures(t *testing.T) {
	p := visitShop(t)
	for _, v := range views {
		v.show(p)
		p.says("#live", "live") // the browser cuts streams when a network of its host changes
		for _, scheme := range []string{"light", "dark"} {
			p.prefer(scheme)
			eval[bool](p, "(() => {"+still+"})(), true")
			p.compare(v.name + "-" + scheme)
		}
	}
}
