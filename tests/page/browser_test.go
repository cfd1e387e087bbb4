package page

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// browser is one Chromium for all tests; each has a tab of its own.
var browser context.Context

func TestMain(m *testing.M) {
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.NoSandbox, chromedp.WindowSize(1280, 800), chromedp.WSURLReadTimeout(host.Patience),
		chromedp.Flag("font-render-hinting", "none"), chromedp.Flag("disable-lcd-text", true)) // letters look alike everywhere
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	var end context.CancelFunc
	browser, end = chromedp.NewContext(allocator)
	code := host.Main(m)
	end()
	stop()
	os.Exit(code)
}

var started = sync.OnceValue(func() error { return chromedp.Do(browser) })

// page is agentctl ui, and a tab that shows it.
type page struct {
	t   *testing.T
	ctx context.Context
	// provoked: the test breaks the policy of the page.
	provoked atomic.Bool
	// ignore: it is a page of somebody else.
	ignore atomic.Bool

	mu       sync.Mutex // guards troubles
	troubles []string
}

// open runs agentctl ui, by a command that it is added to, and shows the page. When the test
// ends, nothing may have been refused by the policy of the page, or have gone wrong in it.
func open(t *testing.T, ui *exec.Cmd) *page {
	t.Helper()
	p := tab(t)
	p.visit(serve(t, ui))
	return p
}

// visit shows the page that is at an address.
func (p *page) visit(url string) {
	p.t.Helper()
	p.do(chromedp.Navigate(url))
	p.until("the map is drawn", `document.body?.dataset.drawn > 0`) // a file that leads on has no body
}

// tab is an empty one.
func tab(t *testing.T) *page {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("chromium is missing: %v", err)
		}
		t.Skip("chromium is missing")
	}
	if err := started(); err != nil {
		t.Fatalf("chromium does not start: %v", err)
	}
	ctx, end := chromedp.NewContext(browser)
	p := &page{t: t, ctx: ctx}
	t.Cleanup(func() {
		end()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, text := range p.troubles {
			t.Errorf("the page: %s", text)
		}
	})
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			p.trouble(e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError {
				p.trouble(fmt.Sprintf("console: %s", e.Args[0].Value))
			}
		case *log.EventEntryAdded:
			provoked := p.provoked.Load() && strings.Contains(e.Entry.Text, "Content Security Policy")
			if e.Entry.Source != log.EntrySourceNetwork && !provoked { // refusals are answers
				p.trouble(e.Entry.Text)
			}
		}
	})
	if err == nil {
		_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	}
	if err != nil {
		t.Fatalf("chromium: %v", err)
	}
	return p
}

// serve runs agentctl ui and returns the address that it prints.
func serve(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	cmd.Args = append(cmd.Args, "ui", "--no-open")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("agentctl ui: %v\n%s", err, said.String())
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("agentctl ui: %v\n%s", err, said.String())
	}
	return strings.TrimSpace(url)
}

func (p *page) trouble(text string) {
	if p.ignore.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.troubles = append(p.troubles, text)
}

func (p *page) do(action chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	run(p, action)
}

func run[T any](p *page, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, host.Patience)
	defer cancel()
	out, err := chromedp.Run(ctx, action)
	if err != nil {
		p.t.Fatalf("the page: %v", err)
	}
	return out
}

// call has the browser do what no action of chromedp does.
func call[P, R any](p *page, what cdp.Command[P, R], params P) {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, what, params); err != nil {
		p.t.Fatalf("chromium: %v", err)
	}
}

// eval is the value of an expression of JavaScript.
func eval[T any](p *page, expression string) T {
	p.t.Helper()
	return run(p, chromedp.Evaluate[T](expression))
}

// until waits until an expression is true.
func (p *page) until(what, expression string) {
	p.t.Helper()
	for end := time.Now().Add(patience); !eval[bool](p, "Boolean("+expression+")"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("it is not so that %s; the page says:\n%s\n%s", what, eval[string](p, `document.body.innerText`), strings.Join(p.troubles, "\n"))
		}
	}
}

// press types keys, such as those of package kb.
func (p *page) press(keys string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys))
}

// says waits until an element has a text in it.
func (p *page) says(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%s says %q", selector, text), fmt.Sprintf("document.querySelector(%q)?.innerText.includes(%q)", selector, text))
}

// click clicks on an element, as a mouse would, and be it of the map.
func (p *page) click(selector string) {
	p.t.Helper()
	p.until(selector+" is there", fmt.Sprintf("document.querySelector(%q) && !document.querySelector(%q).closest('[hidden]')", selector, selector))
	eval[bool](p, fmt.Sprintf("document.querySelector(%q).dispatchEvent(new MouseEvent('click', {bubbles: true}))", selector))
}

// visible is an element that says a text, and that nobody has to scroll to or to uncover. What is
// not in order comes first, since it is what people see first.
const visible = `((text) => [...document.querySelectorAll('body *')].filter((e) => {
  const own = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.includes(text));
  const r = e.getBoundingClientRect();
  const x = r.x + Math.min(r.width / 2, 40), y = r.y + r.height / 2;
  const at = own && r.width > 0 && document.elementFromPoint(x, y);
  return at && (at === e || e.contains(at) || at.contains(e) || at.closest('.box') && at.closest('.box') === e.closest('.box'));
}).sort((a, b) => Boolean(b.closest('.wait')) - Boolean(a.closest('.wait')))[0])`

// reads waits until a text can be read.
func (p *page) reads(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%q can be read", text), fmt.Sprintf("%s(%q)", visible, text))
}

// use clicks with the mouse on what says a text.
func (p *page) use(text string) {
	p.t.Helper()
	p.reads(text)
	at := eval[[]float64](p, fmt.Sprintf("(({x, y, width, height}) => [x + Math.min(width / 2, 40), y + height / 2])(%s(%q).getBoundingClientRect())", visible, text))
	p.do(chromedp.MouseClickXY(at[0], at[1]))
}

// paste puts a text where intent is written.
func (p *page) paste(text string) {
	p.t.Helper()
	eval[bool](p, fmt.Sprintf("document.querySelector('#intent').value = %q, document.querySelector('#intent').dispatchEvent(new Event('input'))", text))
}

// box is the selector of the box of a key.
func box(key string) string { return fmt.Sprintf(".box[data-id='%s']", key) }

// drawn is a box as the page has it, or as the API says that it is.
type drawn struct{ ID, State, Mark string }

const boxesOfThePage = `[...document.querySelectorAll('#map .box')].map((b) => ({id: b.dataset.id, state: b.dataset.state, mark: b.dataset.mark}))`

func (p *page) boxes() []drawn { p.t.Helper(); return eval[[]drawn](p, boxesOfThePage) }

// boxesOfTheAPI are those that the agent says, by the socket.
func boxesOfTheAPI(t *testing.T, h *host.Host) (out []drawn) {
	t.Helper()
	var answer struct{ Boxes []drawn }
	if err := json.Unmarshal(post(t, h, "Map", "{}"), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Boxes
}

// patience is how long the page may take for anything.
const patience = 30 * time.Second

var enter = kb.Enter
