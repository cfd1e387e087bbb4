package attributes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

const rows = "testdata/attributes"

// steps are what a row plays and shows, in their order. Of what others do, and of a
// restart, it must come to what was shown before.
var steps = []string{"one", "two", "unset"}

// TestAttributes plays all rows at once, step by step, on one agent: so it takes seconds and
// not hours. What the kernel of this machine does not have must be refused for good; under
// the kernels of Debian (tests/kernels) it must be there.
func TestAttributes(t *testing.T) {
	p := &play{h: host.New(t, host.Options{NoEngine: true, Fast: true}), t: t, rows: map[string]*row{}}
	datadriven.Walk(t, rows, func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			r := rowOf(t, d)
			if p.rows[r.name] != nil {
				d.Fatalf(t, "there are two rows %s", r.name)
			}
			p.rows[r.name] = r
			p.order = append(p.order, r)
			return d.Expected
		})
	})
	p.all()
	datadriven.Walk(t, rows, func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if r := p.rows[d.CmdArgs[0].Key]; !r.lacking {
				return r.text()
			}
			return d.Expected
		})
	})
	for _, r := range p.order {
		for _, f := range r.faults {
			t.Errorf("%s: %s", r.name, f)
		}
	}
}

// play is all rows on one host.
type play struct {
	h     *host.Host
	t     *testing.T
	rows  map[string]*row
	order []*row
}

func (p *play) all() {
	h := p.h
	h.Args = append(h.Args, "--policy", "interface/ key="+h.Dir+"/*, proxy/ proxy=listen:tcp:*|listen:udp:*|listen:unix:"+h.Dir+"/*|forward:tcp:*|forward:udp:*|forward:loopback:*")
	keys(p.t, h)
	for _, r := range p.order {
		for _, c := range r.there {
			h.Own.Run(p.t, words(h, c)...)
		}
	}
	before := h.Exact()
	h.Start()
	p.set("one", func(r *row) map[string]any { return r.sets[0] })
	p.set("two", func(r *row) map[string]any { return r.sets[1] })
	p.set("unset", func(r *row) map[string]any {
		if r.needed {
			return r.sets[1]
		}
		return nil
	})
	p.set("", func(r *row) map[string]any { return r.sets[0] })
	p.as("set again")
	h.Stop()
	h.Start()
	h.AwaitSettled()
	if n := h.KernelWrites(); n != 0 {
		p.t.Errorf("%d kernel writes after a restart on a correct host\n%s", n, h.Done())
	}
	p.as("after a restart")
	p.others()
	var all []string
	for _, r := range p.playing() {
		all = append(all, r.keys()...)
	}
	h.MustCtl(append([]string{"delete"}, all...)...)
	h.MustCtl("release") // of what is too much at once
	h.AwaitSettled()
	if after := h.Exact(); after != before {
		p.t.Errorf("after all is deleted things of others are not as before:\n%s", host.Diff(before, after))
	}
}

// playing are the rows that the kernel has.
func (p *play) playing() (list []*row) {
	for _, r := range p.order {
		if !r.lacking {
			list = append(list, r)
		}
	}
	return list
}

// set writes all rows and notes what the kernel shows then.
func (p *play) set(step string, value func(*row) map[string]any) {
	p.t.Helper()
	p.write(func(r *row) string { return r.with(value(r)) })
	for _, r := range p.waiting() {
		r.fault("%s: %s", step, p.h.Key(r.key).Text())
	}
	if step == "" {
		return
	}
	for _, r := range p.playing() {
		r.said[step] = r.shown(p.h)
	}
}

// waiting are the rows that do not come to be as wanted. What the kernel does not have is
// taken back. A path is told by an event of its own, so it may be after all has settled.
func (p *play) waiting() (list []*row) {
	p.t.Helper()
	for range 100 {
		now := map[string]host.Key{}
		for _, k := range p.h.Keys() {
			now[k.Key] = k
		}
		list = nil
		for _, r := range p.playing() {
			if now[r.key].State != "configured" && !p.lacks(r, now) {
				list = append(list, r)
			}
		}
		if len(list) == 0 {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return list
}

// lacks reports whether the kernel does not have what a row is about, and takes that back.
func (p *play) lacks(r *row, now map[string]host.Key) bool {
	p.t.Helper()
	lacks := ""
	for _, key := range r.keys() {
		if why := now[key].Reason; notInThisKernel(why) {
			lacks = why
		}
	}
	if lacks == "" {
		return false
	}
	p.t.Logf("%s: %s", r.name, lacks)
	r.lacking = true
	p.h.MustCtl(append([]string{"delete"}, r.keys()...)...)
	return true
}

// notInThisKernel reports whether a reason is that the kernel lacks something. Kernels of Debian lack
// nothing.
func notInThisKernel(why string) bool {
	lacks := strings.Contains(why, "not supported by this kernel") || strings.Contains(why, "does this kernel have")
	return lacks && os.Getenv("PLUMB_KERNEL") == ""
}

// write writes the values of all rows at once.
func (p *play) write(value func(*row) string) {
	p.t.Helper()
	intent := map[string]json.RawMessage{}
	for _, r := range p.playing() {
		for k, v := range r.before {
			intent[k] = json.RawMessage(expand(p.h, v))
		}
		intent[r.key] = json.RawMessage(expand(p.h, value(r)))
	}
	text, err := json.Marshal(map[string]any{"intent": intent})
	if err != nil {
		p.t.Fatal(err)
	}
	if r := p.h.CtlInput(string(text), "apply", "-f", "-"); r.Code != 0 {
		p.t.Fatalf("apply: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	p.h.AwaitSettled()
}

// as holds all rows to what they showed with their first value.
func (p *play) as(when string) {
	for _, r := range p.playing() {
		if is := r.shown(p.h); is != r.said["one"] {
			r.fault("%s:%s\nwant:%s", when, is, r.said["one"])
		}
	}
}

// others has somebody else change everything. While the agent is frozen that can be seen;
// then it is repaired, what the kernel does not tell of when it is read.
func (p *play) others() {
	h := p.h
	h.MustCtl("freeze", "-m", "others change everything")
	for _, r := range p.playing() {
		if len(r.others)+len(r.quiet) == 0 {
			r.fault("nobody changes it: give it a line others, or quiet")
		}
		before := r.said["one"]
		for _, c := range append(r.others, r.quiet...) {
			if out, err := h.Own.Try(words(h, c)...); err != nil {
				r.fault("%s: %v\n%s", c, err, out)
			}
			now := r.shown(h)
			for range 500 { // what is killed takes a moment
				if now != before {
					break
				}
				time.Sleep(10 * time.Millisecond)
				now = r.shown(h)
			}
			if now == before {
				r.fault("%s: changes nothing of what is shown", c)
			}
			before = now
		}
	}
	h.MustCtl("unfreeze")
	h.AwaitSettled()
	for _, r := range p.playing() {
		if len(r.quiet) == 0 {
			p.repaired(r)
		}
	}
	h.Ctl("resync") // its exit code says what is told below
	h.AwaitSettled()
	for _, r := range p.playing() {
		p.repaired(r)
	}
}

func (p *play) repaired(r *row) {
	var is string
	for range 200 {
		if is = r.shown(p.h); is == r.said["one"] {
			return
		}
		p.h.AwaitSettled()
	}
	r.fault("what others changed is not repaired:%s\nwant:%s\n%s", is, r.said["one"], p.h.Key(r.key).Text())
}

// keys writes files with keys of WireGuard.
func keys(t testing.TB, h *host.Host) {
	t.Helper()
	for name, key := range map[string]string{
		"left": "QAr8P8ByFaQ6fDqhJZQvmpY4Zib9Nle0Jc2oyLd5MVI=", "right": "sFdBvKxvF9GHGM9yzpAwBR4p4ZyfkTB8b9kFfQHq1lw=",
		"shared": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "shared2": "AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
	} {
		if err := os.WriteFile(filepath.Join(h.Dir, name), []byte(key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// expand puts in the directory of the host, and the agent's numbers.
func expand(h *host.Host, text string) string {
	return strings.NewReplacer("$HOST", h.Dir, "$GROUP", strconv.Itoa(int(kernel.Group(h.Label))),
		"$HANDLE", fmt.Sprintf("%x", kernel.Handle(h.Label)), "$PROTO", strconv.Itoa(int(kernel.Protocol(h.Label)))).Replace(text)
}

// clean leaves out of a text what is another one in each run.
func clean(h *host.Host, text string) string {
	text = strings.NewReplacer(h.Dir, "$HOST", h.Label, "LABEL", fmt.Sprintf(" %x: ", kernel.Handle(h.Label)), " HANDLE: ").Replace(text)
	proto := regexp.MustCompile(fmt.Sprintf(`\bproto %d\b`, kernel.Protocol(h.Label)))
	return proto.ReplaceAllString(text, "proto PROTO")
}
