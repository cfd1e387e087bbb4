package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/plugins/private"
)

// TestStoppedAgent: a call to an agent that is stopped ends, and names the process and the remedy.
func TestStoppedAgent(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "cni.sock")
	l, err := private.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := system{dial: func(socket string, limit time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		return private.Dial(ctx, socket)
	}}
	_, err = s.ask(wire.Request{Args: spec.Args{Command: "STATUS"}}, socket) // nobody accepts
	if err == nil || !strings.Contains(err.Error(), "i/o timeout; process ") {
		t.Errorf("it says %v", err)
	}

	stopped := exec.Command("sleep", "1000")
	if err := stopped.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stopped.Process.Kill(); _ = stopped.Wait() }()
	if err := stopped.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for !private.Stopped(stopped.Process.Pid) { // soon
		runtime.Gosched()
	}
	if got, want := private.Process(stopped.Process.Pid), fmt.Sprintf("process %d (sleep) is stopped; resume it with: kill -CONT %[1]d", stopped.Process.Pid); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}
