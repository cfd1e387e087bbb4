package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a Submitter that prints what it gets.
type recorder struct{ txns chan scheduler.Txn }

func newRecorder() *recorder { return &recorder{make(chan scheduler.Txn, 100)} }

func (r *recorder) Submit(t scheduler.Txn) *scheduler.Handle {
	r.txns <- t
	return nil
}

// take prints what came since the last call.
func (r *recorder) take(dir string) string {
	var b strings.Builder
	for len(r.txns) > 0 {
		b.WriteString(txnText(<-r.txns))
	}
	return strings.ReplaceAll(b.String(), dir+"/", "")
}

func txnText(t scheduler.Txn) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", t.Source, t.Note)
	if t.Complete {
		b.WriteString(", complete")
	}
	b.WriteString("\n")
	for _, c := range t.Want {
		var bad *scheduler.InvalidError
		switch {
		case errors.As(c.Invalid, &bad):
			fmt.Fprintf(&b, "  %s invalid %v\n", c.Key, bad)
		case c.Value == nil:
			fmt.Fprintf(&b, "  %s withdrawn\n", c.Key)
		default:
			fmt.Fprintf(&b, "  %s %s\n", c.Key, models.Encode(c.Value.(proto.Message)))
		}
	}
	return b.String()
}

// fakeWatcher hints when told.
type fakeWatcher struct {
	hint chan struct{}
	err  error
}

func (w *fakeWatcher) Add(string) error       { return w.err }
func (w *fakeWatcher) Hints() <-chan struct{} { return w.hint }
func (w *fakeWatcher) Close()                 {}

// bench is a directory with a source on it, in a bubble of its own time.
type bench struct {
	t   *testing.T
	dir string
	rec *recorder
	src *Source
	w   *fakeWatcher
}

// inBubble runs a story. The source starts when the story calls start.
func inBubble(t *testing.T, story func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "intent")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		b := &bench{t: t, dir: dir, rec: newRecorder(), w: &fakeWatcher{hint: make(chan struct{}, 1)}}
		b.src = New(dir, b.rec, Options{})
		b.src.newWatcher = func() (watcher, error) { return b.w, nil }
		story(b)
	})
}

func (b *bench) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- b.src.Run(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	})
	synctest.Wait()
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) write(name, text string) {
	b.t.Helper()
	b.must(os.WriteFile(b.path(name), []byte(text), 0o600))
}

func (b *bench) hint() {
	select {
	case b.w.hint <- struct{}{}:
	default:
	}
}

func (b *bench) pass(d time.Duration) {
	time.Sleep(d) // the bubble's time
	synctest.Wait()
}

// settle hints and lets two looks go by.
func (b *bench) settle() {
	b.hint()
	b.pass(250 * time.Millisecond)
}

func (b *bench) expect(want string) {
	b.t.Helper()
	want = strings.ReplaceAll(strings.TrimPrefix(want, "\n"), "\t", "")
	if got := b.rec.take(b.dir); got != want {
		b.t.Errorf("got\n%swant\n%s", got, want)
	}
}

func (b *bench) expectHealth(state, reason string) {
	b.t.Helper()
	h := b.src.Health()
	if got := strings.ReplaceAll(h.Reason, b.dir, "DIR"); h.State != state || got != reason {
		b.t.Errorf("health %s, %q\n  want %s, %q", h.State, got, state, reason)
	}
}

const (
	web  = "key: interface/web\nvalue: {dummy: {}}\n"
	web2 = "key: interface/web\nvalue: {dummy: {}, mtu: 1400}\n"
	blue = "key: netns/blue\nvalue: {}\n"
)

func TestStory(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.write("10-web.yaml", web+"---\n"+blue)
		b.write("20-route.json", `{"intent":{"route/r":{"interface":"web","destination":"10.0.0.0/8"}}}`)
		b.write("readme.txt", "not for us")
		b.write(".hidden.yaml", "not for us")
		b.write("10-web.yaml~", "not for us")
		b.must(os.Mkdir(b.path("dir.yaml"), 0o700))
		b.start()
		b.pass(time.Second)
		b.expect(`
file: intent files 10-web.yaml, 20-route.json, complete
  interface/web {"dummy":{}}
  netns/blue {}
  route/r {"interface":"web","destination":"10.0.0.0/8"}
`)
		b.expectHealth("ok", "")

		b.write("10-web.yaml", "# a comment changes nothing\n"+web+"---\n"+blue)
		b.settle()
		b.expect("")

		b.write("10-web.yaml", web2)
		b.settle()
		b.expect(`
file: intent files 10-web.yaml
  interface/web {"mtu":1400,"dummy":{}}
  netns/blue withdrawn
`)

		b.must(os.Remove(b.path("20-route.json")))
		b.settle()
		b.expect(`
file: intent files 20-route.json
  route/r withdrawn
`)
		if got := fmt.Sprint(b.src.Health().Details); !strings.Contains(got, "files:1 invalid:0 keys:1") {
			t.Errorf("details %s", got)
		}
	})
}

func TestEmptyDirectoryIsAWord(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		b.expectHealth("starting", "the files still change") // it was just made
		b.expect("")
		b.pass(time.Second)
		b.expect("file: intent files, complete\n")
		b.expectHealth("ok", "the directory has no file that ends in .yaml, .yml or .json")
		b.write("10-web.yaml", web)
		b.write("20-empty.yaml", "")
		b.write("30-comment.yaml", "# to be written\n")
		b.settle()
		b.expectHealth("ok", "no document in 20-empty.yaml, 30-comment.yaml")
	})
}

// TestQuietDirectoryIsBelievedAtOnce: a start does not wait when nobody has
// touched the files of late.
func TestQuietDirectoryIsBelievedAtOnce(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.write("a.yaml", web)
		long := time.Now().Add(-time.Hour)
		b.must(os.Chtimes(b.path("a.yaml"), long, long))
		b.must(os.Chtimes(b.dir, long, long))
		b.start()
		b.expect(`
file: intent files a.yaml, complete
  interface/web {"dummy":{}}
`)
	})
}

// TestInvalid: what is wrong with a value spoils its key and nothing else.
func TestInvalid(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.write("a.yaml", `
- {key: interface/web, value: {veth: {pear: x}}}
- {key: interfce/x, value: {}}
- {key: microservice/web, value: {}}
- {key: netns/blue, value: {}}
`)
		b.start()
		b.pass(time.Second)
		b.expect(`
file: intent files a.yaml, complete
  interface/web invalid veth.pear: unknown field, did you mean peer?
  interfce/x invalid unknown kind "interfce", did you mean interface?
  microservice/web invalid microservice is observed and cannot be written
  netns/blue {}
`)
		b.expectHealth("ok", "")
		b.write("a.yaml", web)
		b.settle()
		b.expect(`
file: intent files a.yaml
  interface/web {"dummy":{}}
  interfce/x withdrawn
  microservice/web withdrawn
  netns/blue withdrawn
`)
	})
}

func TestKeyWrittenTwice(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.write("a.yaml", blue+"---\n"+web)
		b.write("b.yaml", web2)
		b.start()
		b.pass(time.Second)
		b.expect(`
file: intent files a.yaml, b.yaml, complete
  interface/web invalid written more than once, at a.yaml:4 and b.yaml:1; keep one
  netns/blue {}
`)
		b.must(os.Remove(b.path("a.yaml")))
		b.settle()
		b.expect(`
file: intent files a.yaml
  interface/web {"mtu":1400,"dummy":{}}
  netns/blue withdrawn
`)
	})
}

// TestUnknownIsNotEmpty: a file that cannot be read or parsed keeps its keys.
func TestUnknownIsNotEmpty(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.write("a.yaml", web)
		b.write("b.yaml", blue)
		b.start()
		b.pass(time.Second)
		b.rec.take(b.dir)

		b.write("a.yaml", "key: interface/web\nvalue: {")
		b.settle()
		b.expect("")
		b.expectHealth("degraded", "DIR/a.yaml:2: not valid YAML: did not find expected node content; what was read of it before stays")

		b.must(os.Remove(b.path("b.yaml")))
		b.must(os.Symlink("nowhere", b.path("b.yaml")))
		b.settle()
		b.expect("")
		b.expectHealth("degraded", "DIR/a.yaml:2: not valid YAML: did not find expected node content; and 1 more files are bad; what was read of them before stays")

		b.must(os.Rename(b.dir, b.dir+".away"))
		b.settle()
		b.expect("")
		b.expectHealth("down", "open DIR: no such file or directory; what was read before stays")

		b.must(os.Rename(b.dir+".away", b.dir))
		b.pass(2 * time.Second) // no hint: the watch is gone with the directory
		b.must(os.Remove(b.path("b.yaml")))
		b.write("a.yaml", web2)
		b.settle()
		b.expect(`
file: intent files a.yaml, b.yaml
  interface/web {"mtu":1400,"dummy":{}}
  netns/blue withdrawn
`)
		b.expectHealth("ok", "")
	})
}

// TestBrokenAtStart: as long as the files are not all known, nothing is said
// to be complete, so that nothing of them is deleted.
func TestBrokenAtStart(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.write("a.yaml", web)
		b.write("b.yaml", "{")
		b.start()
		b.pass(time.Second)
		b.expect(`
file: intent files a.yaml, b.yaml
  interface/web {"dummy":{}}
`)
		b.write("b.yaml", blue)
		b.settle()
		b.expect(`
file: intent files b.yaml, complete
  interface/web {"dummy":{}}
  netns/blue {}
`)
	})
}

func TestUnreadableAtStart(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.write("a.yaml", web)
		b.must(os.Symlink("nowhere", b.path("b.yaml")))
		b.start()
		b.pass(time.Second)
		b.expect(`
file: intent files a.yaml, b.yaml
  interface/web {"dummy":{}}
`)
		b.must(os.Remove(b.path("b.yaml")))
		b.settle()
		b.expect(`
file: intent files b.yaml, complete
  interface/web {"dummy":{}}
`)
	})
}

func TestDirectoryComesLater(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.must(os.Remove(b.dir))
		b.start()
		b.expectHealth("down", "open DIR: no such file or directory; what was read before stays")
		b.must(os.Mkdir(b.dir, 0o700))
		b.write("a.yaml", web)
		b.expect("")
		b.pass(2 * time.Second)
		b.expect(`
file: intent files a.yaml, complete
  interface/web {"dummy":{}}
`)
	})
}

// TestSaves: the ways in which editors save, none of which may show a state in
// between.
func TestSaves(t *testing.T) {
	look := 60 * time.Millisecond // a hint is followed by looks 100 ms and 200 ms later
	for name, save := range map[string]func(b *bench){
		"rename over": func(b *bench) {
			b.write(".a.yaml.tmp", web2)
			b.hint()
			b.pass(look)
			b.must(os.Rename(b.path(".a.yaml.tmp"), b.path("a.yaml")))
			b.hint()
		},
		"move away, then write": func(b *bench) {
			b.must(os.Rename(b.path("a.yaml"), b.path("a.yaml~")))
			b.hint()
			b.pass(2 * look)
			b.write("a.yaml", web2)
			b.hint()
		},
		"truncate, then write in pieces": func(b *bench) {
			b.write("a.yaml", "")
			b.hint()
			b.pass(2 * look)
			b.write("a.yaml", web2[:20])
			b.hint()
			b.pass(look)
			b.write("a.yaml", web2)
			b.hint()
		},
		"no hint, only the slow look": func(b *bench) {
			b.write("a.yaml", web2)
			b.pass(31 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.write("a.yaml", web)
				b.write("b.yaml", blue)
				b.start()
				b.pass(time.Second)
				b.rec.take(b.dir)
				save(b)
				b.pass(time.Second)
				b.expect(`
file: intent files a.yaml
  interface/web {"mtu":1400,"dummy":{}}
`)
			})
		})
	}
}

// TestRestlessFile: a file that somebody writes without end holds nobody up.
func TestRestlessFile(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.write("a.yaml", web)
		b.write("restless.yaml", "# 0")
		b.start()
		b.pass(time.Second)
		b.rec.take(b.dir)
		b.write("a.yaml", web2)
		for i := range 20 {
			b.write("restless.yaml", fmt.Sprint("# ", i+1))
			b.hint()
			b.pass(50 * time.Millisecond)
		}
		b.expect(`
file: intent files a.yaml
  interface/web {"mtu":1400,"dummy":{}}
`)
	})
}

// TestNoWatcher: without inotify the slow look does the work, and health says so.
func TestNoWatcher(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.src.newWatcher = func() (watcher, error) { return nil, errors.New("too many watches") }
		b.start()
		b.pass(time.Second)
		b.rec.take(b.dir)
		b.write("a.yaml", web)
		b.pass(31 * time.Second)
		b.expect(`
file: intent files a.yaml
  interface/web {"dummy":{}}
`)
		if got := b.src.Health().Details["watch"]; got != "too many watches; looking every 30s" {
			t.Errorf("watch: %s", got)
		}
	})
}

func TestSpecialFiles(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.must(os.Truncate(b.mustCreate("big.yaml"), maxFile+1))
		b.must(os.Symlink("/dev/null", b.path("null.yaml")))
		b.start()
		b.pass(time.Second)
		b.expect("")
		b.expectHealth("degraded", "DIR/big.yaml is larger than 64 MiB; split it; and 1 more files are bad; what was read of them before stays")
	})
}

func (b *bench) mustCreate(name string) string {
	b.write(name, "")
	return b.path(name)
}

// TestInotify runs on the kernel's own hints, in real time.
func TestInotify(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "intent")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(dir, 0o700))
	rec := newRecorder()
	s := New(dir, rec, Options{Settle: time.Millisecond, Rescan: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	next := func(want string) {
		t.Helper()
		select {
		case txn := <-rec.txns:
			if got := txnText(txn); got != want {
				t.Fatalf("got\n%swant\n%s", got, want)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("nothing came")
		}
	}
	next("file: intent files, complete\n")
	must(os.WriteFile(filepath.Join(dir, ".a"), []byte(web), 0o600))
	must(os.Rename(filepath.Join(dir, ".a"), filepath.Join(dir, "a.yaml")))
	next("file: intent files a.yaml\n  interface/web {\"dummy\":{}}\n")
	must(os.WriteFile(filepath.Join(dir, ".a"), []byte(web2), 0o600))
	must(os.Rename(filepath.Join(dir, ".a"), filepath.Join(dir, "a.yaml")))
	next("file: intent files a.yaml\n  interface/web {\"mtu\":1400,\"dummy\":{}}\n")

	// Another directory under the same name.
	must(os.Mkdir(dir+".new", 0o700))
	must(os.WriteFile(filepath.Join(dir+".new", "a.yaml"), []byte(web), 0o600))
	must(os.Rename(dir, dir+".old"))
	must(os.Rename(dir+".new", dir))
	next("file: intent files a.yaml\n  interface/web {\"dummy\":{}}\n")
	must(os.Remove(filepath.Join(dir, "a.yaml")))
	next("file: intent files a.yaml\n  interface/web withdrawn\n")
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
