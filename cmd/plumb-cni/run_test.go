package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/plugins/cni/wire"
)

// The tests play testdata/<name>: calls, and what becomes of them.
//
//	agent WHAT   how the agent is from now on: down, silent (takes the connection
//	             and says nothing), hangs (says hello and nothing more), forbidden,
//	             dies (after it has heard the request), or answers: hello and
//	             answer as given, line by line; "-" is the usual one
//	call         one call: variables line by line, then the configuration
//	             within a /run of its own; $RUN is its directory
//	queue        what is left for the agent
//
// Of a call is printed what went to standard output and to standard error, what the
// agent heard, how long it took, and the exit code. Nothing waits for real.

func TestStreamsAndExitCode(t *testing.T)      { play(t, "N01-streams") }
func TestEnvironment(t *testing.T)             { play(t, "N02-environment") }
func TestConfiguration(t *testing.T)           { play(t, "N03-configuration") }
func TestVersion(t *testing.T)                 { play(t, "N04-version") }
func TestForwarding(t *testing.T)              { play(t, "N06-forwarding") }
func TestCommandsOfLaterVersions(t *testing.T) { play(t, "N11-versions") }
func TestForeignFields(t *testing.T)           { play(t, "N22-foreign-fields") }
func TestTraces(t *testing.T)                  { play(t, "N24-traces") }
func TestHandshake(t *testing.T)               { play(t, "S02-handshake") }
func TestAgentDown(t *testing.T)               { play(t, "agent-down") }
func TestDeadlines(t *testing.T)               { play(t, "deadlines") }
func TestResults(t *testing.T)                 { play(t, "results") }
func TestHostNamespace(t *testing.T)           { play(t, "host-namespace") }

func play(t *testing.T, name string) {
	t.Helper()
	run := filepath.Join(t.TempDir(), "run")
	synctest.Test(t, func(t *testing.T) {
		p := &peer{t: t, run: run}
		datadriven.RunTest(t, "testdata/"+name, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "agent":
				p.how, p.says = d.CmdArgs[0].Key, strings.Split(d.Input, "\n")
			case "call":
				return p.call(d.Input)
			case "queue":
				return p.queue()
			default:
				d.Fatalf(t, "unknown directive %s", d.Cmd)
			}
			return ""
		})
	})
}

// peer is the agent, as the plugin meets it, and the kernel.
type peer struct {
	t     *testing.T
	run   string
	how   string
	says  []string
	dials int
	heard bytes.Buffer
	gone  []string // interfaces that were removed
	taken bool     // the interface is there already
	ipam  *fakeIPAM
	real  bool // plugins of others are run
}

func (p *peer) dial(socket string, limit time.Duration) (net.Conn, error) {
	p.dials++
	if socket != filepath.Join(p.run, "cni.sock") {
		return nil, fmt.Errorf("nobody is at %s", socket)
	}
	switch p.how {
	case "", "down":
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.ENOENT)}
	case "forbidden":
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
	}
	near, far := net.Pipe()
	go p.serve(far)
	return near, nil
}

func (p *peer) serve(conn net.Conn) {
	defer conn.Close()
	if p.how == "silent" {
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	hello, answer := `{"plumb":"cni","oldest":1,"newest":1}`, `{}`
	if len(p.says) > 0 && p.says[0] != "" && p.says[0] != "-" {
		hello = p.says[0]
	}
	if len(p.says) > 1 {
		answer = p.says[1]
	}
	fmt.Fprintln(conn, hello)
	var r json.RawMessage
	if wire.NewReader(conn).Read(&r) != nil {
		return
	}
	fmt.Fprintf(&p.heard, "heard %s\n", r)
	switch p.how {
	case "hangs":
		_, _ = io.Copy(io.Discard, conn)
	case "answers":
		fmt.Fprintln(conn, answer)
	}
}

// The namespaces: the host's is 1, those of containers are named by their number.
func (p *peer) inode(path string) (uint64, bool) {
	var n uint64
	if _, err := fmt.Sscanf(path, "/run/netns/%d", &n); err != nil {
		return 0, false
	}
	return n, n == 1
}

func (p *peer) another(path string) string {
	if strings.HasSuffix(path, "/mnt") {
		return "mnt"
	}
	return ""
}

func (p *peer) has(string, string) bool { return p.taken }

func (p *peer) forwards(family int) bool { return family == 4 }

func (p *peer) unlink(path, ifname string) error {
	p.gone = append(p.gone, ifname+" in "+path)
	if ifname == "theirs" {
		return errors.New("it bears no mark of Plumb, and stays")
	}
	return nil
}

func (p *peer) call(input string) string {
	env, config, _ := strings.Cut(strings.ReplaceAll(input, "$RUN", p.run), "\n{")
	if config != "" {
		config = "{" + config
	}
	getenv := func(name string) string {
		for line := range strings.Lines(env) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
				return v
			}
		}
		return ""
	}
	var stdin io.Reader = strings.NewReader(config)
	if getenv("STDIN") == "broken" {
		stdin = io.MultiReader(stdin, brokenReader{})
	}
	var out, errs bytes.Buffer
	p.heard.Reset()
	p.gone, p.dials = nil, 0
	began := time.Now()
	s := system{getenv: getenv, stdin: stdin, stdout: &out, stderr: &errs, dial: p.dial, namespaces: p}
	if p.ipam != nil {
		p.ipam.heard = nil
		s.programs = p.ipam
	}
	if p.real {
		s.programs = realPrograms{}
	}
	code := run(s)
	if !p.real {
		synctest.Wait()
	}
	var b strings.Builder
	b.WriteString(out.String())
	for _, part := range []struct{ name, text string }{{"stderr", errs.String()}, {"agent", p.heard.String()}, {"removed", strings.Join(p.gone, "\n")},
		{"ipam", p.ipam.said()}} {
		if part.text != "" {
			fmt.Fprintf(&b, "-- %s\n%s\n", part.name, strings.TrimSpace(part.text))
		}
	}
	if took := time.Since(began); took > 0 && !p.real {
		fmt.Fprintf(&b, "-- after %s, %d tries\n", took, p.dials)
	}
	if code != 0 {
		fmt.Fprintf(&b, "-- exit %d\n", code)
	}
	return strings.ReplaceAll(b.String(), p.run, "$RUN")
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("the pipe is broken") }

var stamp = regexp.MustCompile(`"queued":\d+`)

func (p *peer) queue() string {
	left, bad, _ := wire.Queue(p.run)
	var lines []string
	for _, l := range left {
		text, _ := json.Marshal(l.Request)
		lines = append(lines, strings.ReplaceAll(stamp.ReplaceAllString(string(text), `"queued":TIME`), p.run, "$RUN"))
	}
	for _, b := range bad {
		lines = append(lines, "bad: "+b.Err.Error())
	}
	slices.Sort(lines)
	return strings.Join(append(lines, ""), "\n")
}
