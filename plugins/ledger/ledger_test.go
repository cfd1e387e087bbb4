package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/linefile"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustOpen(t testing.TB, dir string) *Ledger {
	t.Helper()
	l, found, err := Open(dir, Witness{}, nil)
	if err != nil || found.Damage != "" {
		t.Fatalf("open: %v, damage %q", err, found.Damage)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func mustAdd(t testing.TB, l *Ledger, entries ...kernel.Entry) {
	t.Helper()
	if err := l.Add(entries...); err != nil {
		t.Fatal(err)
	}
}

// ids prints the ledger: id=value, sorted.
func ids(l *Ledger) string {
	var parts []string
	for _, e := range l.Entries("") {
		parts = append(parts, e.ID+"="+string(e.Value))
	}
	return strings.Join(parts, " ")
}

func entry(id, value string) kernel.Entry {
	return kernel.Entry{ID: id, Value: json.RawMessage(value)}
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	full := kernel.Entry{
		ID: "interface/web", NS: 4026531840, NSPath: "/proc/1/ns/net", Boot: "b", Index: 7, Mark: "plumb:a:interface/web",
		Value: json.RawMessage(`{"x": "<&>",  "y":[1, 2]}`), Prior: json.RawMessage(`null`),
	}
	mustAdd(t, l, full, entry("a", "1"))
	mustAdd(t, l, entry("b", "2"))
	mustAdd(t, l, entry("a", "3"))
	l.Remove("b", "no such")
	l.Amend(func(e kernel.Entry) (kernel.Entry, bool) {
		e.Identity = &kernel.Identity{Name: "web", Type: "veth", MAC: "02:00:00:00:00:01", Cookie: 9}
		return e, e.ID == full.ID
	}, full.ID, "a", "no such")
	before := l.Entries("")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	l = mustOpen(t, dir)
	if got := l.Entries(""); !reflect.DeepEqual(got, before) {
		t.Errorf("before %v\nafter  %v", before, got)
	}
	if got, want := ids(l), `a=3 interface/web={"x":"<&>","y":[1,2]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if e, ok := l.Get("interface/web"); !ok || e.Index != 7 || e.NS != full.NS || !e.Equal(before[1]) || e.Identity == nil {
		t.Errorf("Get = %v, %v", e, ok)
	}
	if _, ok := l.Get("b"); ok {
		t.Error("a removed entry is back")
	}
	info, err := os.Stat(filepath.Join(dir, fileName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file mode %v, %v", info.Mode(), err)
	}
}

func TestRefuses(t *testing.T) {
	l := mustOpen(t, t.TempDir())
	if err := l.Add(entry("", "1")); err == nil || err.Error() != `ledger entry "": it has no id` {
		t.Errorf("no id: %v", err)
	}
	if err := l.Add(entry("good", "1"), entry("bad", "{")); err == nil {
		t.Error("a value that is no JSON was taken")
	}
	if got := ids(l); got != "" {
		t.Errorf("a refused Add left %s", got)
	}
	if err := l.Add(); err != nil {
		t.Errorf("nothing to add: %v", err)
	}
	l.Close()
	if err := l.Add(entry("a", "1")); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	l.Remove("a")
	if err := l.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestOpenRefusesNewerFormat(t *testing.T) {
	dir := t.TempDir()
	text := appendLine(nil, change{Version: version + 1})
	if err := os.WriteFile(filepath.Join(dir, fileName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir, Witness{}, nil); err == nil || !strings.Contains(err.Error(), "format 3") {
		t.Errorf("got %v", err)
	}
	l, found, err := Open(filepath.Join(dir, "missing"), Witness{}, nil)
	if err != nil || !found.Missing || l.Broken() == nil {
		t.Errorf("a missing directory: %v, %v", found, err)
	}
}

// TestCrash cuts the file at every byte, as a power failure may, and opens what is
// left: every entry whose Add had returned by then is there, unless a Remove
// that was called by then reached the disk, and nothing is that nobody added. That
// the end is missing is told.
func TestCrash(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	size := func() int {
		info, err := os.Stat(filepath.Join(dir, fileName))
		if err != nil {
			t.Fatal(err)
		}
		return int(info.Size()) - len(endLine(int(info.Size())))
	}
	type moment struct {
		size int
		want string
	}
	moments := []moment{{size(), ids(l)}}
	note := func() { moments = append(moments, moment{size(), ids(l)}) }
	for i := range 6 {
		mustAdd(t, l, entry(fmt.Sprintf("k%d", i), fmt.Sprint(i)))
		note()
	}
	l.Remove("k2")
	note()
	mustAdd(t, l, entry("k1", `"again"`))
	note()
	l.Remove("k1")
	note()
	mustAdd(t, l, entry("k1", `"back"`))
	note()
	text, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}

	at := 0
	for n := moments[0].size; n <= len(text); n++ {
		for at+1 < len(moments) && moments[at+1].size <= n {
			at++
		}
		cut := t.TempDir()
		if err := os.WriteFile(filepath.Join(cut, fileName), text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		// A crash may also leave the beginning of a rewrite.
		if err := os.WriteFile(filepath.Join(cut, fileName+".new"), text[:n/2], 0o600); err != nil {
			t.Fatal(err)
		}
		l, found, err := Open(cut, Witness{}, nil)
		if err != nil || (found.Damage == "") != (n == len(text)) {
			t.Fatalf("cut at %d: %v, damage %q", n, err, found.Damage)
		}
		if got := ids(l); got != moments[at].want {
			t.Fatalf("cut at %d: got %s, want %s", n, got, moments[at].want)
		}
		mustAdd(t, l, entry("after", "1"))
		want := ids(l)
		l.Close()
		l = mustOpen(t, cut)
		if got := ids(l); got != want {
			t.Fatalf("cut at %d, then added: got %s, want %s", n, got, want)
		}
		l.Close()
	}
}

// pages is a file whose writes may be cut short: states are what it may be like whenever the
// program is killed. A few bytes are written at once.
type pages struct {
	text   []byte
	states [][]byte
}

func (p *pages) WriteAt(b []byte, at int64) (int, error) {
	few := len(endLine(int(at)))
	for n := 1; n <= len(b); n++ {
		now := slices.Concat(p.text[:at], b[:n])
		if len(now) < len(p.text) {
			now = append(now, p.text[len(now):]...)
		}
		if n == len(b) {
			p.text = now
		}
		if n == len(b) || len(b) > few {
			p.states = append(p.states, now)
		}
	}
	return len(b), nil
}

// TestKilledInAWrite: a write that was cut short is no damage. Before it ends nobody was told
// that it is done, so the ledger is as it was; and in the end as it should be.
func TestKilledInAWrite(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	mustAdd(t, l, entry("a", "1"))
	l.Close()
	text, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	more := []byte{}
	for _, id := range []string{"b", "c"} {
		e := entry(id, "2")
		more = appendLine(more, change{Add: &e})
	}
	f := &pages{text: text}
	if err := extend(f, last, append(more, endLine(last+len(more))...)); err != nil {
		t.Fatal(err)
	}
	for i, state := range f.states {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), state, 0o600); err != nil {
			t.Fatal(err)
		}
		want := "a=1"
		if i == len(f.states)-1 {
			want = "a=1 b=2 c=2"
		}
		l, found, err := Open(dir, Witness{}, nil)
		if err != nil || found.Damage != "" {
			t.Fatalf("state %d: %v, damage %q\n%s", i, err, found.Damage, state)
		}
		if got := ids(l); got != want {
			t.Fatalf("state %d: got %s, want %s\n%s", i, got, want, state)
		}
		l.Close()
	}
}

// TestCutFirstFile: a file is there whole or not at all. One without its end was cut.
func TestCutFirstFile(t *testing.T) {
	line := appendLine(nil, change{Version: version})
	for n := range append(line, ' ') {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), line[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		l, found, err := Open(dir, Witness{}, nil)
		if err != nil || !strings.Contains(found.Damage, "cut") {
			t.Fatalf("%d bytes: %v, damage %q", n, err, found.Damage)
		}
		l.Close()
	}
}

// TestFormerFormat: a file of version 1 has no last line.
func TestFormerFormat(t *testing.T) {
	text := appendLine(nil, change{Version: 1})
	a := entry("a", "1")
	text = appendLine(text, change{Add: &a})
	dir := t.TempDir()
	for range 2 {
		if err := os.WriteFile(filepath.Join(dir, fileName), text, 0o600); err != nil {
			t.Fatal(err)
		}
		l := mustOpen(t, dir)
		if got := ids(l); got != "a=1" {
			t.Errorf("got %s", got)
		}
		l.Close()
		text, _ = os.ReadFile(filepath.Join(dir, fileName))
	}
}

// TestDamage flips a bit of every byte of the file, takes every byte out of it, and each
// of its lines: the rest is kept, the damage is told before the file is written anew,
// and a copy of it is there to look at.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	mustAdd(t, l, entry("a", "1"), entry("b", "2"), entry("c", "3"))
	l.Close()
	text, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	damaged := map[string][]byte{"empty": {}}
	for n := range text {
		bad := bytes.Clone(text)
		bad[n] ^= 1 << (n % 8)
		damaged[fmt.Sprintf("a bit of byte %d", n)] = bad
		damaged[fmt.Sprintf("without byte %d", n)] = append(bytes.Clone(text[:n]), text[n+1:]...)
	}
	at := 0
	for i, line := range slices.Collect(bytes.Lines(text)) {
		damaged[fmt.Sprintf("without line %d", i)] = append(bytes.Clone(text[:at]), text[at+len(line):]...)
		at += len(line)
	}
	for name, bad := range damaged {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		told := Found{}
		l, found, err := Open(dir, Witness{}, func(f Found) error {
			told = f
			if now, _ := os.ReadFile(filepath.Join(dir, fileName)); !bytes.Equal(now, bad) {
				t.Errorf("%s: the file was changed before it was told", name)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(l.Entries("")) < 1 && name != "empty" {
			t.Errorf("%s: all is lost", name)
		}
		l.Close()
		copied, err := os.ReadFile(filepath.Join(dir, fileName+".damaged-1"))
		if found.Damage == "" || told != found || !strings.HasSuffix(found.Aside, "ledger.damaged-1") || err != nil || !bytes.Equal(copied, bad) {
			t.Errorf("%s: found %+v, told %+v, copy %v", name, found, told, err)
		}
		mustOpen(t, dir).Close() // from now on it is whole
	}
}

func TestCompacts(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	mustAdd(t, l, entry("kept", `"x"`))
	for range 3 * slack {
		mustAdd(t, l, entry("churn", `"y"`))
		l.Remove("churn")
	}
	info, err := os.Stat(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	if max := int64(2 * slack * 60); info.Size() > max {
		t.Errorf("the file has %d bytes, want at most %d", info.Size(), max)
	}
	l.Close()
	if got := ids(mustOpen(t, dir)); got != `kept="x"` {
		t.Errorf("got %s", got)
	}
}

// TestConcurrent: Adds, Removes and reads from many goroutines, with rewrites
// in between; what was added last is what is found after reopening.
func TestConcurrent(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 300 {
				id := fmt.Sprintf("g%d-%d", g, i%7)
				if err := l.Add(entry(id, fmt.Sprint(i)), entry("shared", fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
				if e, ok := l.Get(id); !ok || string(e.Value) != fmt.Sprint(i) {
					t.Errorf("%s is %v, %v", id, e, ok)
				}
				if i%3 == 0 {
					l.Remove(id)
				}
			}
			l.Entries("")
		})
	}
	wg.Wait()
	want := ids(l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := ids(mustOpen(t, dir)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func BenchmarkAdd(b *testing.B) {
	value := json.RawMessage(`{"host_name":"eth1","mtu":1400,"addresses":["10.61.0.1/24"],"veth":{"peer":"web-host"}}`)
	b.Run("sequential", func(b *testing.B) {
		l := mustOpen(b, b.TempDir())
		for i := 0; b.Loop(); i++ {
			mustAdd(b, l, kernel.Entry{ID: fmt.Sprintf("interface/%d", i%1000), Value: value})
		}
	})
	b.Run("parallel-64", func(b *testing.B) {
		l := mustOpen(b, b.TempDir())
		next := make(chan int)
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for i := range next {
					if err := l.Add(kernel.Entry{ID: fmt.Sprintf("interface/%d", i%1000), Value: value}); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for i := 0; b.Loop(); i++ {
			next <- i
		}
		close(next)
		wg.Wait()
	})
}

// TestLines: a line is as encoding/json writes it.
func TestLines(t *testing.T) {
	for _, c := range []change{
		{Version: version}, {Remove: "route/a"}, {Remove: "<\"&>\u2028\x00"}, {End: 17}, {},
		{Add: &kernel.Entry{ID: "a"}},
		{Add: &kernel.Entry{ID: `a"b`, NS: 1 << 63, NSPath: "/run/netns/<x>", Boot: "b", Value: json.RawMessage(`{"a":["<",1]}`), Prior: json.RawMessage(`1`), Mark: "mark äö", Index: -1}},
	} {
		var body bytes.Buffer
		enc := json.NewEncoder(&body)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(c); err != nil {
			t.Fatal(err)
		}
		want := string(linefile.AppendLine(nil, bytes.TrimSuffix(body.Bytes(), []byte("\n"))))
		if got := string(appendLine(nil, c)); got != want {
			t.Errorf("got %swant %s", got, want)
		}
	}
}
