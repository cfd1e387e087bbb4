package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// fleetSize is how many agents there are, each in a namespace of its own.
const fleetSize = 20

// many is an operator of many agents at one etcd.
type many struct {
	t      *testing.T
	dir    string
	etcd   string
	hosts  []*host.Host
	labels []string
	before []string // pictures
}

func newMany(t *testing.T) *many {
	m := &many{t: t, dir: t.TempDir(), etcd: etcdtest.Start(t).URL()}
	for i := range fleetSize {
		label := fmt.Sprintf("web-%02d-%d", i+1, os.Getpid())
		h := host.New(t, host.Options{NoEngine: true, Fast: true, Etcd: m.etcd,
			Args: []string{"--labels", fmt.Sprintf("role=web,rack=r%d", i%2)}})
		h.Label = label
		h.Launch()
		m.hosts, m.labels = append(m.hosts, h), append(m.labels, label)
	}
	for _, h := range m.hosts {
		h.AwaitReady()
	}
	m.before = m.pictures()
	return m
}

func (m *many) pictures() (all []string) {
	for _, h := range m.hosts {
		all = append(all, h.Picture())
	}
	return all
}

func (m *many) file(name, text string) string {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// ctl runs agentctl fleet, which speaks with etcd alone.
func (m *many) ctl(args ...string) host.Result {
	m.t.Helper()
	return m.hosts[0].CtlFrom([]string{"PLUMB_ETCD=" + m.etcd}, append([]string{"fleet"}, args...)...)
}

// rollout is what agentctl tells of one.
type rollout struct {
	ID, State, Reason string
	Next              int
	Hosts             []struct {
		Agent, State, Reason string
		Notes                []string
		Wave                 int
	}
}

// roll runs a command of a rollout, and wants the exit code and the state.
func (m *many) roll(code int, state string, args ...string) (r rollout) {
	m.t.Helper()
	out := m.ctl(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out.Out), &r); out.Code != code || err != nil || r.State != state {
		m.t.Fatalf("agentctl fleet %s: exit %d, want %d and %s; %v\n%s%s", strings.Join(args, " "), out.Code, code, state, err, out.Out, out.Err)
	}
	for _, h := range r.Hosts {
		if state == "undone" && len(h.Notes) > 0 {
			m.t.Errorf("%s is undone, but %s", h.Agent, strings.Join(h.Notes, "; "))
		}
	}
	return r
}

// states are the states of hosts in the order of their labels, a letter each.
func (r rollout) states() string {
	out := ""
	for _, h := range r.Hosts {
		if h.State == "restored" || h.State == "reverted" {
			out += h.State[2:3] // s or v
		} else {
			out += h.State[:1]
		}
	}
	return out
}

// are checks which hosts have the change: + has it, = is as before.
func (m *many) are(want string) {
	m.t.Helper()
	for i, h := range m.hosts {
		differs := same(m.before[i], h.Picture())
		switch {
		case want[i] == '=' && differs != nil:
			m.t.Errorf("%s: %v", h.Label, differs)
		case want[i] == '+' && !strings.Contains(h.Picture(), `"10.77.`):
			m.t.Errorf("%s has not got the change", h.Label)
		}
	}
}

// TestFleet: a rollout over 20 hosts halts in the wave with a host that does not take it, and
// nothing is changed beyond; it goes on when that host is well, and is undone everywhere. When
// agentctl dies in the middle of a wave its hosts go back by themselves, and it goes on from
// there.
func TestFleet(t *testing.T) {
	m := newMany(t)
	const text = `
- key: interface/lan0
  value: {bridge: {}, addresses: [{{ json .values.address }}]}
`
	site := m.file("site.yaml", text)
	values := "hosts:\n"
	for i, l := range m.labels {
		values += fmt.Sprintf("  %s: {address: 10.77.%d.1/24}\n", l, i+1)
	}
	apply := []string{"apply", "-f", site, "--values", m.file("values.yaml", values), "-l", "role=web", "-m", "lan for all"}
	all, none := strings.Repeat("+", fleetSize), strings.Repeat("=", fleetSize)

	var first, last rollout
	step := func(name string, do func(m *many)) {
		if !t.Failed() { // each stands on those before
			t.Run(name, func(t *testing.T) { do(m.with(t)) })
		}
	}
	step("what is missing on one host writes nothing", func(m *many) {
		short := m.file("short.yaml", strings.Join(strings.SplitAfter(values, "\n")[:fleetSize], ""))
		r := m.ctl("apply", "-f", site, "--values", short)
		if want := m.labels[fleetSize-1] + ": " + site + ":3:"; r.Code != 2 || !strings.Contains(r.Out, want) || !strings.Contains(r.Out, `"address"`) {
			m.t.Errorf("exit %d, want 2 and %q\n%s%s", r.Code, want, r.Out, r.Err)
		}
		if r := m.ctl("status"); r.Code != 2 || !strings.Contains(r.Err, "there is no such rollout") {
			m.t.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
		}
		m.are(none)
	})

	step("a poisoned host halts its wave", func(m *many) {
		m.hosts[4].Own.IP(m.t, "link add lan0 type bridge") // somebody else's
		m.before[4] = m.hosts[4].Picture()
		first = m.roll(1, "halted", append(apply, "--waves", "1,10%,50%,100%", "--confirm", "90s")...)
		if got := first.states(); first.Next != 2 || got[:2] != "kk" || strings.Trim(got[2:10], "vr") != "" || got[10:] != "wwwwwwwwww" || !strings.HasPrefix(first.Reason, m.labels[4]+": ") {
			m.t.Errorf("wave %d, %s, %s", first.Next, got, first.Reason)
		}
		m.are("++" + none[2:])
	})

	step("it goes on when the host is well", func(m *many) {
		m.hosts[4].Own.IP(m.t, "link delete lan0")
		m.before[4] = m.hosts[4].Picture()
		if got := m.roll(0, "done", "resume").states(); got != strings.Repeat("k", fleetSize) {
			m.t.Error(got)
		}
		m.are(all)
		m.roll(0, "done", "status")
	})

	step("what the files do not name any more goes", func(m *many) {
		m.file("site.yaml", "- key: interface/lan1\n  value: {bridge: {}}\n")
		prune := append(slices.Clip(apply), "--prune", "--agent", "web-0[12]-*", "--waves", "100%")
		if got := m.roll(0, "done", prune...).states(); got != "kk" {
			m.t.Error(got)
		}
		for _, h := range m.hosts[:2] {
			if p := h.Picture(); strings.Contains(p, `"10.77.`) || !strings.Contains(p, `"lan1"`) {
				m.t.Errorf("%s has what went, or has not what came:\n%s", h.Label, p)
			}
		}
		if got := m.roll(0, "undone", "undo").states(); got != "ss" {
			m.t.Error(got)
		}
		m.are(all)
		if got := m.roll(0, "done", prune...).states(); got != "kk" { // it is known again what belongs together
			m.t.Error(got)
		}
		m.roll(0, "undone", "undo")
		m.file("site.yaml", text)
		last = m.roll(0, "done", append(apply, "--waves", "100%")...)
		m.are(all)
	})

	step("agents are asked through etcd", func(m *many) {
		for args, want := range map[string]string{
			"get interface/lan0 --agent web-0[12]-*": "configured",
			"why interface/lan0 --agent web-01-*":    "rollout",
			"history --agent web-01-* --last 3":      "lan for all",
		} {
			if r := m.ctl(strings.Fields(args)...); r.Code != 0 || !strings.Contains(r.Out, want) {
				m.t.Errorf("%s: exit %d\n%s%s", args, r.Code, r.Out, r.Err)
			}
		}
		m.hosts[2].Own.IP(m.t, "address flush dev lan0")
		m.hosts[2].Eventually("what was taken away is back", func() error {
			if r := m.ctl("diff", "-l", "rack=r0"); r.Code != 0 || strings.Count(r.Out, "web-") != fleetSize/2 {
				return fmt.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
			}
			return nil
		})
	})

	step("all is undone", func(m *many) {
		if r := m.ctl("undo", first.ID); r.Code != 2 || !strings.Contains(r.Err, last.ID) {
			m.t.Errorf("an undo below a later rollout: exit %d\n%s%s", r.Code, r.Out, r.Err)
		}
		m.roll(0, "undone", "undo", last.ID)
		m.are(all)
		if got := m.roll(0, "undone", "undo", first.ID).states(); got != strings.Repeat("s", fleetSize) {
			m.t.Error(got)
		}
		m.are(none)
	})

	step("agentctl dies in the middle", func(m *many) {
		m.dies(append(apply, "--agent", "web-0[123]-*", "--waves", "2,100%", "--confirm", "15s"))
		m.are(none)
		m.hosts[0].Eventually("it goes on", func() error { // once nobody's claim stands
			if r := m.ctl("resume"); r.Code != 0 {
				return fmt.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
			}
			return nil
		})
		m.are("+++" + none[3:])
		m.roll(0, "undone", "undo")
		m.are(none)
	})

	step("who is not there is seen", func(m *many) {
		m.hosts[0].Stop()
		m.hosts[1].Kill9()
		m.hosts[0].Eventually("one is stopped and one is dead", func() error {
			r := m.ctl("-o", "template={{range .}}{{.state}} {{end}}")
			if want := "stopped dead" + strings.Repeat(" alive", fleetSize-2); strings.TrimSpace(r.Out) != want || r.Code != 1 {
				return fmt.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
			}
			return nil
		})
		if r := m.ctl(apply...); r.Code != 2 || !strings.Contains(r.Err, m.labels[1]+" is dead") {
			m.t.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
		}
	})
}

func (m *many) with(t *testing.T) *many {
	c := *m
	c.t, c.hosts = t, nil
	for _, h := range m.hosts {
		c.hosts = append(c.hosts, h.With(t))
	}
	return &c
}

// dies starts a rollout whose first wave cannot end, since the agent of its second host hangs,
// and kills agentctl when the first one has the change; then it waits until that has gone.
func (m *many) dies(args []string) {
	m.t.Helper()
	hangs := m.hosts[1].AgentPid()
	if err := syscall.Kill(hangs, syscall.SIGSTOP); err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(hangs, syscall.SIGCONT) }()
	ctx, kill := context.WithCancel(context.Background())
	defer kill()
	cmd := exec.CommandContext(ctx, host.Program(m.t, "agentctl"), append([]string{"fleet"}, args...)...)
	var story bytes.Buffer
	cmd.Env, cmd.Stderr = append(os.Environ(), "PLUMB_ETCD="+m.etcd), &story
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	first := m.hosts[0]
	first.Eventually("the first host has the change", func() error {
		if !strings.Contains(first.Picture(), `"10.77.`) {
			return errors.New("it has not")
		}
		return nil
	})
	kill()
	if err := cmd.Wait(); err == nil {
		m.t.Fatalf("it has ended before:\n%s", story.String())
	}
	first.Eventually("it goes back by itself", func() error { return same(m.before[0], first.Picture()) })
	_ = syscall.Kill(hangs, syscall.SIGCONT)
	second := m.hosts[1]
	second.Eventually("who was not there does nothing, or goes back too", func() error {
		if r := second.Ctl("status", "-o", "template={{if .confirm}}waits{{end}}"); strings.TrimSpace(r.Out) != "" || r.Code != 0 {
			return fmt.Errorf("exit %d %s", r.Code, r.Out)
		}
		return same(m.before[1], second.Picture())
	})
}
