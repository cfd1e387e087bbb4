package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/access/accesstest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// fleet is an operator's own directory, and an agent that is reached over the network.
type fleet struct {
	*host.Host
	t       *testing.T
	dir     string
	address string
	ca      *accesstest.Authority
	server  accesstest.Pair
}

func (f *fleet) file(name string) string { return filepath.Join(f.dir, name) }

// tokens makes a token for each NAME ROLE, as people do, and replaces the file of tokens.
func (f *fleet) tokens(people ...string) {
	f.t.Helper()
	var lines string
	for _, p := range people {
		name, role, _ := strings.Cut(p, " ")
		r := f.CtlFrom(nil, "token", "create", name, "--role", role)
		if r.Code != 0 {
			f.t.Fatal(r.Err)
		}
		f.write(name+".token", r.Out)
		lines += r.Err
	}
	f.write("tokens", lines)
}

func (f *fleet) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(f.file(name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// as runs agentctl with the context of the name.
func (f *fleet) as(name string, args ...string) host.Result {
	f.t.Helper()
	return f.CtlFrom([]string{"XDG_CONFIG_HOME=" + f.dir}, append([]string{"--context", name}, args...)...)
}

// expect runs agentctl until it says what is wanted.
func (f *fleet) expect(name, want string, args ...string) {
	f.t.Helper()
	f.Eventually(fmt.Sprintf("%s: agentctl %s says %q", name, strings.Join(args, " "), want), func() error {
		if r := f.as(name, args...); !strings.Contains(r.Out+r.Err, want) {
			return fmt.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
		}
		return nil
	})
}

// TestRemote: an agent is looked after over the network, by those who may and as far as they
// may, and goes over to other certificates and tokens while it runs.
func TestRemote(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, dir: t.TempDir(), ca: accesstest.New(t)}
	f.server = f.ca.Issue(accesstest.Cert{Name: "agent"})
	f.address = fmt.Sprintf("127.%d.%d.1:7443", 1+rand.IntN(254), rand.IntN(255))
	listen := []string{"--listen", f.address, "--tls-cert", f.server.Cert, "--tls-key", f.server.Key}
	f.Host = host.New(t, host.Options{Parallel: true, NoEngine: true, Args: listen})

	// Nothing is served to strangers.
	cmd := f.AgentCommand(t.Context(), f.AgentArgs()...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 2 || said.String() != "plumb-agent: listen needs client-ca, tokens, or both: nothing is served over the network to those who are not known\n" {
		t.Errorf("exit %d\n%s", cmd.ProcessState.ExitCode(), said.String())
	}

	f.Args = append(f.Args, "--tokens", f.file("tokens"), "--client-ca", f.ca.File)
	f.tokens("vera viewer", "oleg operator")
	f.Start()
	ada := f.ca.Issue(accesstest.Cert{Name: "ada", Roles: []string{"plumb:admin"}, Client: true})
	for name, shows := range map[string][]string{
		"vera": {"--token-file", f.file("vera.token")}, "oleg": {"--token-file", f.file("oleg.token")}, "ada": {"--cert", ada.Cert, "--key", ada.Key},
	} {
		args := append([]string{"context", "set", name, "--address", f.address, "--ca", f.ca.File, "--server-name", "127.0.0.1"}, shows...)
		if r := f.CtlFrom([]string{"XDG_CONFIG_HOME=" + f.dir}, args...); r.Code != 0 {
			t.Fatal(r.Err)
		}
	}
	f.write("web.yaml", "intent: {interface/web: {tap: {}}}\n")
	f.expect("oleg", "written", "put", "interface/web", `{"tap":{},"addresses":["10.1.0.1/24"]}`, "-o", "json")
	f.expect("vera", "met", "wait", "interface/web", "-o", "json")
	f.expect("vera", "agentctl: vera is viewer; Delete takes operator", "delete", "interface/web")
	f.expect("oleg", "agentctl: oleg is operator; a probe that runs a command takes admin",
		"apply", "-f", f.file("web.yaml"), "--confirm", "60s", "--probe", "exec:true")
	f.expect("ada", "tap", "kv", "get", "config/interface/web")
	f.expect("oleg", `"by": "oleg (operator, token, 127.0.0.1)"`, "freeze", "-m", "cabling", "-o", "json")
	f.expect("oleg", `"message": "cabling"`, "unfreeze", "-o", "json")
	for _, want := range []string{
		"msg=call part=api by=oleg role=operator from=127.0.0.1 call=Put keys=[interface/web]",
		`msg="a call was refused" part=api by="vera (viewer, token, 127.0.0.1)" call=Delete`,
	} {
		if !strings.Contains(f.Log(), want) {
			t.Errorf("the log lacks %s:\n%s", want, f.Log())
		}
	}

	// A file that is damaged changes nothing, and is told.
	whole, err := os.ReadFile(f.file("tokens"))
	if err != nil {
		t.Fatal(err)
	}
	f.write("tokens", string(whole)+"half\n")
	f.expect("vera", "remote: degraded: what was in use before still is: "+f.file("tokens")+":3: want three words", "status")

	watchers := func() string { return f.MustCtl("metrics", "plumb_events_watchers") }
	before, watch := watchers(), make(chan host.Result, 1)
	go func() { watch <- f.as("vera", "events", "-w") }()
	f.Eventually("vera watches", func() error {
		if watchers() == before {
			return errors.New("nobody watches")
		}
		return nil
	})

	// Another authority, another certificate, other tokens; nobody restarts anything.
	f.tokens("oleg viewer")
	f.expect("vera", "agentctl: the token is unknown to this agent", "get")
	f.expect("oleg", "agentctl: oleg is viewer; Delete takes operator", "delete", "interface/web")
	next := accesstest.New(t)
	next.Renew(f.server, accesstest.Cert{Name: "agent"})
	f.expect("oleg", "its certificate is signed by an authority that we do not know", "get")
	if err := os.Rename(next.File, f.ca.File); err != nil {
		t.Fatal(err)
	}
	f.expect("oleg", "interface/web", "get")
	f.expect("ada", "it does not know the authority that signed our certificate", "get")
	next.Renew(ada, accesstest.Cert{Name: "ada", Roles: []string{"plumb:admin"}, Client: true})
	f.expect("ada", "interface/web", "get")
	f.AwaitReady()
	if r := <-watch; r.Code != 2 || !strings.Contains(r.Err, "agentctl: the token is unknown to this agent") {
		t.Errorf("the watch of vera ended with %d\n%s", r.Code, r.Err)
	}
}
