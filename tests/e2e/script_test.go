package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

var (
	stories  = flag.String("stories", "testdata/stories", "directory of the stories that TestStories plays")
	noEngine = flag.Bool("no-engine", false, "play the stories without a container engine, one after the other")
)

// TestStories plays the scripts of testdata/stories, each on a host of its own. Those of
// testdata/kernels are for kernels with all types of links, see tests/kernels.
//
//	write            intent, line by line: KEY VALUE
//	raw KEY          one value, byte by byte as it stands; fill=N makes it a
//	                 text of N bytes; none leaves it empty
//	elsewhere LABEL  the same for the agent of another label, which does not run
//	delete           intent, line by line: KEY
//	run NAME         starts a container; further lines are options of docker run;
//	                 command=TEXT is what it runs
//	docker           runs docker
//	file NAME        writes a file
//	see              prints the states of the keys named, line by line, as soon
//	                 as they are as expected
//	ctl              runs agentctl; the first line is the command line, the rest
//	                 its standard input; with traceless the kernel, the ledger and
//	                 what the agent knows must be as before
//	watch            the same, again and again until it prints what is expected
//	page PATH        prints a page of the agent, as watch
//	why              prints the roots that agentctl why names of a key, as watch
//	ip PLACE         runs ip(8) in own, a named namespace or a container, as
//	                 watch; with get=(FIELD,…) it prints these of every object
//	in PLACE         runs commands there, line by line
//	print PLACE      the same, and prints what they print, as watch
//	fight PLACE      an ip(8) there does this, again and again, until: peace PLACE
//	serve PLACE      answers there from now on who speaks: NETWORK ADDRESS, by the
//	                 name=NAME
//	say PLACE        says something there and prints what is answered, as watch:
//	                 NETWORK ADDRESS TEXT
//	mount NAME       somebody else makes a named namespace; unmount ends it
//	restart          restarts the agent, which must write nothing to the kernel;
//	                 lines are flags of it from then on
//	end              prints what agentctl diff finds, and what ip(8) shows in every place,
//	                 as watch
//	settle           waits until nothing is to come
//	unwritten        the agent must not have written to the kernel since it started
//
// $DIR is a directory of the story, $PROGRAMS that of our programs, $HOST that of the host,
// $LABEL the agent's label; $PROTO and $GROUP are the agent's numbers for routes and links. Times, indexes and the like are shown by
// their names. With -rewrite the files are written anew.
func TestStories(t *testing.T) {
	datadriven.Walk(t, *stories, func(t *testing.T, path string) {
		o := host.Options{Parallel: true}
		if *noEngine {
			o = host.Options{NoEngine: true, Fast: true}
		} else {
			t.Parallel()
		}
		dir := t.TempDir() // it outlives the host, which may have intent in it
		h := host.New(t, o)
		h.Start()
		s := &script{Host: h, dir: dir, story: t, peace: map[string]func(){}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s := &script{Host: s.With(t), whole: h, dir: s.dir, story: s.story, peace: s.peace, t: t, d: d}
			return s.step()
		})
	})
}

type script struct {
	*host.Host
	t   *testing.T
	d   *datadriven.TestData
	dir string
	// story is the test of the whole, with which servers end; whole is its host.
	story testing.TB
	whole *host.Host
	// peace ends the fights that go on, by their places.
	peace map[string]func()
}

func (s *script) step() string {
	s.t.Helper()
	lines := strings.Split(s.d.Input, "\n")
	switch s.d.Cmd {
	case "write":
		for _, l := range lines {
			key, value, _ := strings.Cut(s.expand(l), " ")
			s.Put(key, value)
		}
	case "elsewhere":
		for _, l := range lines {
			key, value, _ := strings.Cut(l, " ")
			s.Etcdctl(value, "put", "/plumb/"+s.first()+"/config/"+key)
		}
	case "raw":
		s.Put(s.first(), s.rawValue())
	case "delete":
		for _, key := range lines {
			s.Delete(key)
		}
	case "run":
		options := append(s.options(lines), s.LabelOption(s.first()))
		command := "sleep 100000"
		s.d.MaybeScanArgs(s.t, "command", &command)
		s.RunCommand(s.first(), options, strings.Fields(command)...)
	case "plain":
		s.RunPlain(s.first(), s.options(lines)...)
	case "docker":
		for _, l := range lines {
			s.Docker(words(s.expand(l))...)
		}
	case "file":
		if err := os.WriteFile(filepath.Join(s.dir, s.first()), []byte(s.d.Input+"\n"), 0o600); err != nil {
			s.t.Fatal(err)
		}
	case "see":
		return s.until(func() string { return s.States(lines...) })
	case "ctl":
		if s.d.HasArg("traceless") {
			return s.traceless(s.ctl)
		}
		return s.ctl()
	case "watch":
		return s.until(s.ctl)
	case "page":
		return s.until(func() string {
			page, err := s.HTTP(s.first())
			if err != nil {
				return err.Error() + "\n"
			}
			return strings.TrimSpace(page) + "\n"
		})
	case "why":
		return s.until(func() string { return s.roots(lines[0]) })
	case "ip":
		s.d.Input = s.expand(s.d.Input)
		return s.until(s.ip)
	case "in":
		for _, l := range lines {
			s.at().Run(s.t, words(s.expand(l))...)
		}
	case "print":
		return s.until(func() (text string) {
			for _, l := range lines {
				out, _ := s.at().Try(words(s.expand(l))...) // it may fail until it is as expected
				text += out
			}
			return text
		})
	case "fight":
		s.peace[s.first()] = fight(s.story, s.at(), s.d.Input)
	case "peace":
		s.peace[s.first()]()
	case "end":
		return s.until(s.End)
	case "settle":
		s.AwaitSettled()
	case "serve":
		var name string
		s.d.MaybeScanArgs(s.t, "name", &name)
		for _, l := range lines {
			w := words(s.expand(l))
			serve(s.story, s.at(), w[0], w[1], name)
		}
	case "say":
		return s.until(func() (text string) {
			for _, l := range lines {
				w := words(s.expand(l))
				text += say(s.at(), w[0], w[1], strings.Join(w[2:], " ")) + "\n"
			}
			return text
		})
	case "mount":
		s.Mount(s.first())
	case "unmount":
		s.Unmount(s.first())
	case "unwritten":
		if n := s.KernelWrites(); n != 0 {
			s.t.Errorf("%d kernel writes\n%s", n, s.Done())
		}
	case "restart":
		s.Stop()
		if s.d.Input != "" {
			for _, l := range lines {
				s.whole.Args = append(s.whole.Args, s.expand(l))
			}
			s.Args = s.whole.Args
		}
		s.Start()
		s.AwaitSettled()
		if n := s.KernelWrites(); n != 0 {
			s.t.Errorf("%d kernel writes after a restart on a correct host\n%s", n, s.Done())
		}
	default:
		s.d.Fatalf(s.t, "unknown directive %s", s.d.Cmd)
	}
	return ""
}

// fight has an ip(8) do something again and again, until end is called.
func fight(t testing.TB, place *netlinktest.Namespace, what string) (end func()) {
	ip := place.Actor(t, "-force")
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			case <-time.After(5 * time.Millisecond):
				ip.Tell(what)
			}
		}
	}()
	end = sync.OnceFunc(func() { close(over); <-ended; ip.End() })
	t.Cleanup(end)
	return end
}

// traceless does what must change nothing: no request to the kernel that writes, no
// transaction, no entry of the ledger, no status.
func (s *script) traceless(do func() string) string {
	s.t.Helper()
	trace := func() string {
		ledger, err := os.ReadFile(filepath.Join(s.StateDir(), "ledger"))
		if err != nil {
			s.t.Fatal(err)
		}
		return fmt.Sprintf("kernel writes %d\nledger\n%s\nhistory\n%s\nkeys\n%s", s.KernelWrites(), ledger,
			withoutContainers(s.t, s.MustCtl("history", "-o", "json")), withoutContainers(s.t, s.MustCtl("get", "-o", "json")))
	}
	before := trace()
	answer := do()
	if after := trace(); after != before {
		s.t.Errorf("it left a trace:\n%s", host.Diff(before, after))
	}
	return answer
}

// withoutContainers leaves out of a list of keys, or of records, those that are about
// containers alone: other stories have theirs in the same engine.
func withoutContainers(t testing.TB, text string) string {
	t.Helper()
	var all []map[string]any
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(m map[string]any) bool {
		keys, _ := m["asked"].([]any)
		if key, is := m["key"]; is {
			keys = []any{key}
		}
		return len(keys) > 0 && !slices.ContainsFunc(keys, func(k any) bool {
			return !strings.HasPrefix(fmt.Sprint(k), "container/") && !strings.HasPrefix(fmt.Sprint(k), "microservice/")
		})
	})
	out, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func (s *script) first() string { return s.d.CmdArgs[0].String() }

// at is the place that a directive names: own, netns NAME, container NAME.
func (s *script) at() *netlinktest.Namespace {
	s.t.Helper()
	var name []string
	for _, a := range s.d.CmdArgs {
		if a.Key != "get" && a.Key != "name" {
			name = append(name, a.Key)
		}
	}
	place := s.Places()[strings.Join(name, " ")]
	if place == nil {
		s.d.Fatalf(s.t, "there is no such place")
	}
	return place
}

func (s *script) ip() string {
	s.t.Helper()
	var fields []string
	for _, a := range s.d.CmdArgs {
		if a.Key == "get" {
			fields = a.Vals
		}
	}
	if fields == nil {
		return s.at().IP(s.t, s.d.Input)
	}
	var objects []string
	for _, o := range host.Show(s.t, s.at(), s.d.Input) {
		var line []string
		for _, f := range fields {
			if v := host.Dig(o, strings.Split(f, ".")...); v != nil {
				line = append(line, fmt.Sprintf("%s=%v", f[strings.LastIndex(f, ".")+1:], v))
			}
		}
		if line != nil {
			objects = append(objects, strings.Join(line, " ")+"\n")
		}
	}
	slices.Sort(objects)
	return strings.Join(objects, "")
}

// options are those of docker run, one per line.
func (s *script) options(lines []string) (all []string) {
	for _, l := range lines {
		all = append(all, words(s.expand(l))...)
	}
	return all
}

func (s *script) rawValue() string {
	var fill int
	s.d.MaybeScanArgs(s.t, "fill", &fill)
	switch {
	case fill > 0:
		return `{"host_name":"` + strings.Repeat("x", fill-len(`{"host_name":""}`)) + `"}`
	case s.d.HasArg("none"):
		return ""
	}
	return s.d.Input
}

func (s *script) ctl() string {
	line, stdin, _ := strings.Cut(s.d.Input, "\n")
	r := s.CtlInput(stdin, words(s.expand(line))[1:]...)
	text := r.Out
	if r.Err != "" {
		text += "-- stderr\n" + r.Err
	}
	if r.Code != 0 {
		text += fmt.Sprintf("-- exit %d\n", r.Code)
	}
	return s.clean(text)
}

// roots are the first lines of agentctl why; what stands below them depends on what the
// agent took for one transaction.
func (s *script) roots(key string) string {
	r := s.Ctl("why", key)
	var roots []string
	for line := range strings.Lines(r.Out) {
		if strings.HasPrefix(line, "root: ") {
			roots = append(roots, line)
		}
	}
	if r.Code != 0 || len(roots) == 0 {
		return r.Err + "no root\n"
	}
	return s.clean(strings.Join(roots, ""))
}

// until asks until the answer is the expected one. When the file is rewritten
// the answer is the one that stands for a second.
func (s *script) until(ask func() string) string {
	rewrite := flag.Lookup("rewrite").Value.String() == "true"
	answer, since := s.clean(ask()), time.Now()
	for end := time.Now().Add(4 * host.Patience); time.Now().Before(end); {
		if rewrite && time.Since(since) > time.Second || !rewrite && answer == s.d.Expected {
			break
		}
		if now := s.clean(ask()); now != answer {
			answer, since = now, time.Now()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return answer
}

// expand puts in the directory, and the names that containers really have:
// @web. $PID(web) is the first process of one, $LABEL(web) gives one the service label.
func (s *script) expand(line string) string {
	if strings.Contains(line, "$PROGRAMS") {
		line = strings.ReplaceAll(line, "$PROGRAMS", filepath.Dir(host.Program(s.t, "agentctl")))
	}
	line = strings.NewReplacer("$DIR", s.dir, "$HOST", s.Dir,
		"$PROTO", strconv.Itoa(int(kernel.Protocol(s.Label))), "$GROUP", strconv.Itoa(int(kernel.Group(s.Label)))).Replace(line)
	line = regexp.MustCompile(`\$PID\((\w+)\)`).ReplaceAllStringFunc(line, func(m string) string {
		return strconv.Itoa(s.Pid(strings.TrimSuffix(m[len("$PID("):], ")")))
	})
	line = regexp.MustCompile(`\$LABEL\((\w+)\)`).ReplaceAllStringFunc(line, func(m string) string {
		return s.LabelOption(strings.TrimSuffix(m[len("$LABEL("):], ")"))
	})
	line = strings.ReplaceAll(line, "$LABEL", s.Label)
	return regexp.MustCompile(`@\w+`).ReplaceAllStringFunc(line, func(name string) string {
		return s.ContainerName(name[1:])
	})
}

// mac is a hardware address; those that tests choose begin with 02:00.
var mac = regexp.MustCompile(`\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b`)

// unstable are the parts of outputs that are never twice the same.
var unstable = []struct {
	what *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:[0-9.]+(Z|\+\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "ID"},
	{regexp.MustCompile(`([/:])[0-9a-f]{12}\b`), "${1}ID"},
	{regexp.MustCompile(`("(?:index|ns|pid|netns|revision|cause|version)": )"?[0-9]+"?`), "${1}N"},
	{regexp.MustCompile(`(\b(?:index|ns): )[0-9]+`), "${1}N"},
	{regexp.MustCompile(`"incarnation":"[0-9a-f]+"`), `"incarnation":"ID"`},
	{regexp.MustCompile(`\b(microservice|container): change seen`), "containers: change seen"},
	{regexp.MustCompile(`"(base|digest)": "[0-9a-f]+"`), `"$1": "HASH"`},
	{regexp.MustCompile(`("(?:took|duration|waited)": )"[0-9.]+s"`), "${1}D"},
	{regexp.MustCompile(`,\n +"via": "[^"]+"`), ``}, // which of several came last, if another did
	{regexp.MustCompile(`172\.17\.0\.\d+`), "172.17.0.N"},
	{regexp.MustCompile(`\bveth[0-9a-f]{7}\b`), "vethN"}, // as the engine names them
	{regexp.MustCompile(`\b(at|until) (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d`), "$1 TIME"},
	{regexp.MustCompile(`\bapply-\d{6}-[0-9a-f]{2}\b`), "apply-NAME"},
	{regexp.MustCompile(`net:\[\d+\]`), "net:[INODE]"},
	{regexp.MustCompile(`pid:\d+`), "pid:N"},
	{regexp.MustCompile(`\b(pid|process|netlink port|transaction|revision|of link|change link|wireguard) \d+`), "$1 N"},
	{regexp.MustCompile(`proc(/|%2F)\d+`), "proc${1}N"},
	{regexp.MustCompile(`"undo \d+"`), `"undo N"`},
	{regexp.MustCompile(`\broot for \S+ \(`), "root ("}, // where somebody logged in
}

func (s *script) clean(text string) string {
	text = strings.ReplaceAll(text, s.Label+"-", "")
	text = regexp.MustCompile(fmt.Sprintf(`\b(protocol=|proto )%d\b`, kernel.Protocol(s.Label))).ReplaceAllString(text, "${1}PROTO")
	text = mac.ReplaceAllStringFunc(text, func(m string) string {
		if strings.HasPrefix(m, "02:00:") || strings.HasPrefix(m, "00:00:") {
			return m
		}
		return "MAC"
	})
	text = strings.NewReplacer(s.Label, "LABEL", s.dir, "$DIR", s.Dir, "$HOST", models.Escape(s.Dir), "$HOST").Replace(text)
	for _, u := range unstable {
		text = u.what.ReplaceAllString(text, u.name)
	}
	return text
}

// words cuts a line at blanks; single quotes hold together.
func words(line string) (all []string) {
	var word strings.Builder
	quoted, in := false, false
	for _, r := range line + " " {
		switch {
		case r == '\'':
			quoted, in = !quoted, true
		case r == ' ' && !quoted:
			if in {
				all = append(all, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	return all
}
