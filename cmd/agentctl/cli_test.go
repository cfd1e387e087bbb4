package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/access"
	"github.com/plumb-net/plumb/plugins/access/accesstest"
	"github.com/plumb-net/plumb/plugins/api/apitest"
)

// TestCLI plays the scripts of testdata/cli against an agent in memory.
//
//	agent   builds the agent, line by line; see apitest.Script
//	file    writes a file: file name=site.yaml
//	run     runs agentctl; the first line is the command line, the rest stdin.
//	        lines=N interrupts it once it has written N lines; > FILE at the
//	        end keeps what it writes
//	store   prints the store
//	env     sets variables of the environment, line by line: NAME=VALUE
//	remote  serves the agent over the network too, to people, line by line: NAME ROLE.
//	        NAME.token, NAME.pem and NAME-key.pem are what they show; ca.pem has the
//	        authority, other.pem another one, and $ADDRESS is where it is
//	unpack  lists what a tar.gz holds, and prints what of it is named: unpack
//	        name=r.tar.gz why.txt
//
// $DIR stands for the directory of the files.
func TestCLI(t *testing.T) {
	defer goleak.VerifyNone(t)
	datadriven.Walk(t, "testdata/cli", func(t *testing.T, path string) {
		s := &script{t: t, agent: apitest.New(), dir: t.TempDir(), vars: map[string]string{}}
		t.Cleanup(func() { s.stop() })
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "agent":
				if err := s.agent.Script(d.Input); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return ""
			case "file":
				var name string
				d.ScanArgs(t, "name", &name)
				if err := os.MkdirAll(filepath.Dir(filepath.Join(s.dir, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(s.dir, name), []byte(d.Input+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				return ""
			case "run":
				lines := 0
				d.MaybeScanArgs(t, "lines", &lines)
				return s.run(d.Input, lines)
			case "env":
				for line := range strings.SplitSeq(d.Input, "\n") {
					name, value, _ := strings.Cut(line, "=")
					s.vars[name] = strings.ReplaceAll(value, "$DIR", s.dir)
				}
				return ""
			case "remote":
				s.serveRemote(strings.Split(d.Input, "\n"))
				return ""
			case "editor":
				t.Setenv("TMPDIR", s.dir)
				s.editor = d.Input
				return ""
			case "unpack":
				var name string
				d.ScanArgs(t, "name", &name)
				return unpack(t, filepath.Join(s.dir, name), func(file string) bool { return d.HasArg(filepath.Base(file)) })
			case "store":
				return s.clean(s.agent.Store.String())
			}
			d.Fatalf(t, "unknown directive %s", d.Cmd)
			return ""
		})
	})
}

// unpack shows what a report holds.
func unpack(t *testing.T, file string, whole func(name string) bool) string {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if err == io.EOF {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, h.FileInfo().Mode(), h.Name)
		if whole(h.Name) {
			_, _ = io.Copy(&b, r)
		}
	}
}

type script struct {
	t      *testing.T
	agent  *apitest.Agent
	dir    string
	socket string
	editor string // a command
	vars   map[string]string
	// address is where the agent is reached over the network.
	address string
	stops   []func()
}

// serveRemote serves the agent to people, each NAME ROLE.
func (s *script) serveRemote(people []string) {
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	copied := func(name, from string) {
		text, err := os.ReadFile(from)
		if err != nil {
			s.t.Fatal(err)
		}
		write(name, string(text))
	}
	ca := accesstest.New(s.t)
	copied("ca.pem", ca.File)
	copied("other.pem", accesstest.New(s.t).File)
	var tokens string
	for _, p := range people {
		name, word, _ := strings.Cut(p, " ")
		role, err := access.ParseRole(word)
		if err != nil {
			s.t.Fatal(err)
		}
		token, entry, err := access.NewToken(name, role)
		if err != nil {
			s.t.Fatal(err)
		}
		tokens += entry.String() + "\n"
		write(name+".token", token+"\n")
		pair := ca.Issue(accesstest.Cert{Name: name, Roles: []string{"plumb:" + word}, Client: true})
		copied(name+".pem", pair.Cert)
		copied(name+"-key.pem", pair.Key)
	}
	write("tokens", tokens)
	server := ca.Issue(accesstest.Cert{Name: "agent"})
	gate, err := access.Open(access.Files{Cert: server.Cert, Key: server.Key, ClientCA: ca.File, Tokens: filepath.Join(s.dir, "tokens")}, access.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = apitest.ServeRemote(s.t, s.agent.Config(), gate)
}

// getenv is the environment of agentctl.
func (s *script) getenv(name string) string {
	if v, set := s.vars[name]; set {
		return v
	}
	return map[string]string{"PLUMB_SOCKET": s.socket, "EDITOR": s.editor, "XDG_CONFIG_HOME": s.dir}[name]
}

func (s *script) stop() {
	for _, f := range s.stops {
		f()
	}
}

// run runs a command line and shows its stdout, its stderr and its exit code.
func (s *script) run(input string, lines int) string {
	if s.socket == "" {
		s.socket = apitest.Serve(s.t, s.agent.Config())
	}
	line, stdin, _ := strings.Cut(input, "\n")
	line, keep, _ := strings.Cut(strings.NewReplacer("$DIR", s.dir, "$ADDRESS", s.address).Replace(line), " > ")
	words := split(line)
	if words[0] != "agentctl" {
		s.t.Fatalf("not agentctl: %s", line)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := &output{after: lines, then: cancel}
	var story bytes.Buffer
	code := run(ctx, env{
		args: words[1:], stdin: strings.NewReader(stdin), stdout: out, stderr: &story,
		getenv: s.getenv,
		now:    apitest.Noon,
	})
	var b strings.Builder
	if keep != "" {
		if err := os.WriteFile(keep, []byte(out.b.String()), 0o644); err != nil {
			s.t.Fatal(err)
		}
	} else {
		io.WriteString(&b, out.b.String())
	}
	if story.Len() > 0 {
		b.WriteString("-- stderr\n" + story.String())
	}
	if code != 0 {
		fmt.Fprintf(&b, "-- exit %d\n", code)
	}
	return s.clean(b.String())
}

func (s *script) clean(text string) string {
	text = regexp.MustCompile(`agentctl-edit-\d+`).ReplaceAllString(text, "agentctl-edit-N")
	text = regexp.MustCompile(`plumb_[\w-]{43}`).ReplaceAllString(text, "plumb_TOKEN")
	text = regexp.MustCompile(`sha256:[0-9a-f]{64}`).ReplaceAllString(text, "sha256:DIGEST")
	pairs := []string{s.socket, "$SOCKET", s.dir, "$DIR", models.Escape(s.dir), "$DIR"}
	if s.address != "" {
		pairs = append(pairs, s.address, "$ADDRESS")
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// output calls then once it has got so many lines, if any were asked for.
type output struct {
	mu    sync.Mutex // guards what follows
	b     strings.Builder
	after int
	then  func()
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b.Write(p)
	if o.after > 0 && strings.Count(o.b.String(), "\n") >= o.after {
		o.then()
	}
	return len(p), nil
}

// split cuts a line into words the way a shell does, with quotes.
func split(line string) (words []string) {
	var word strings.Builder
	quote, in := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ':
			if in {
				words = append(words, word.String())
				word.Reset()
			}
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words
}

// TestEveryCommandHasHelp keeps the help complete: a sentence, a text and an
// example for every command.
func TestEveryCommandHasHelp(t *testing.T) {
	c := &cli{env: env{getenv: func(string) string { return "" }}}
	for _, cmd := range everyCommand(newRoot(c)) {
		if cmd.Short == "" || cmd.Long == "" || !strings.Contains(cmd.Example, "agentctl") {
			t.Errorf("%s: Short, Long and Example are needed", cmd.CommandPath())
		}
		if strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: Short ends in a dot", cmd.CommandPath())
		}
	}
}
