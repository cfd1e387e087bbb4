package cni

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// places are where a call is between plumb-cni and the agent, in their order: it has
// connected; it has asked; the agent has heard; it has answered; the answer was told.
var places = []string{"connected", "asked", "heard", "answered", "told"}

// wiretap stands between plumb-cni and the agent, hands on what they say, and strikes
// once, at a place in a call of a command.
type wiretap struct {
	agent string // its socket
	calls sync.WaitGroup

	mu             sync.Mutex
	command, place string
	strike         func(plugin int)
	struck         bool
}

// tap listens at a socket in the run directory of the agent until the test ends.
func (n *node) tap(name string) *wiretap {
	n.t.Helper()
	w := &wiretap{agent: n.socket("cni.sock")}
	if err := os.MkdirAll(n.host.RunDir(), 0o700); err != nil {
		n.t.Fatal(err)
	}
	// By which the agent knows the directory as its own, beside a socket of ours.
	if err := os.WriteFile(n.socket("agent.sock.lock"), nil, 0o600); err != nil {
		n.t.Fatal(err)
	}
	l, err := net.Listen("unix", n.socket(name))
	if err != nil {
		n.t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w.calls.Go(func() { w.pass(n.t, conn) })
		}
	}()
	n.t.Cleanup(func() {
		_ = l.Close()
		w.calls.Wait()
	})
	return w
}

// arm has the next call of the command struck at a place. What strikes gets the process
// id of the plugin.
func (w *wiretap) arm(command, place string, strike func(plugin int)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.command, w.place, w.strike, w.struck = command, place, strike, false
}

// disarm reports whether it has struck.
func (w *wiretap) disarm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.command = ""
	return w.struck
}

func (w *wiretap) at(place, command string, plugin int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.struck || command != w.command || place != w.place {
		return
	}
	w.struck = true
	w.strike(plugin)
}

// pass hands on one call.
func (w *wiretap) pass(t testing.TB, plugin net.Conn) {
	defer plugin.Close()
	pid, command := caller(t, plugin)
	agent, err := net.Dial("unix", w.agent)
	if err != nil {
		return // as if nobody were there
	}
	defer agent.Close()
	said, answers := bufio.NewReader(plugin), bufio.NewReader(agent)
	hello, err := answers.ReadString('\n')
	if err != nil {
		return
	}
	w.at("connected", command, pid)
	_, _ = plugin.Write([]byte(hello))
	request, err := said.ReadString('\n')
	if err != nil {
		return
	}
	w.at("asked", command, pid)
	_, _ = agent.Write([]byte(request))
	w.at("heard", command, pid)
	go func() { // nothing more is said; who leaves has left the agent too
		_, _ = said.ReadByte()
		agent.Close()
	}()
	answer, err := answers.ReadString('\n')
	if err != nil {
		return
	}
	w.at("answered", command, pid)
	_, _ = plugin.Write([]byte(answer))
	w.at("told", command, pid)
}

// caller is the process at the other end, and the command that it was called with.
func caller(t testing.TB, conn net.Conn) (pid int, command string) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	all := strings.Split(string(env), "\x00")
	if i := slices.IndexFunc(all, func(v string) bool { return strings.HasPrefix(v, "CNI_COMMAND=") }); i >= 0 {
		command = strings.TrimPrefix(all[i], "CNI_COMMAND=")
	}
	return pid, command
}
