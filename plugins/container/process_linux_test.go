package container

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestKernel opens real processes.
func TestKernel(t *testing.T) {
	k, err := NewKernel()
	if err != nil {
		t.Fatal(err)
	}
	testOpen(t, k)
	testClose(t, k)
}

func testOpen(t *testing.T, k *Kernel) {
	cmd := sleeper(t)
	ended := make(chan struct{})
	p, err := k.Open(cmd.Process.Pid, func() { close(ended) })
	if err != nil {
		t.Fatal(err)
	}
	if p.Netns != k.OwnNetns() || p.Netns == 0 {
		t.Errorf("namespace %d, want ours, %d", p.Netns, k.OwnNetns())
	}
	if own, _ := os.ReadFile("/proc/self/cgroup"); strings.TrimSpace(p.Cgroup) != strings.TrimSpace(string(own)) {
		t.Errorf("cgroup %q, want %q", p.Cgroup, own)
	}
	select {
	case <-ended:
		t.Fatal("it ended before it was killed")
	default:
	}
	if !p.Lives() {
		t.Error("it is said not to live")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Not waited for: a process counts as ended also before it is reaped.
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		t.Fatal("its end was not noticed")
	}
	if p.Lives() {
		t.Error("it is said to live")
	}
	if _, err := k.Open(cmd.Process.Pid, func() {}); !errors.Is(err, ErrNoProcess) {
		t.Errorf("a process that has ended was opened: %v", err)
	}
	_ = cmd.Wait()
	if _, err := k.Open(cmd.Process.Pid, func() {}); !errors.Is(err, ErrNoProcess) {
		t.Errorf("a process that was reaped was opened: %v", err)
	}
	p.Close()
}

// testClose: nothing is heard of a process after it was closed.
func testClose(t *testing.T, k *Kernel) {
	cmd := sleeper(t)
	p, err := k.Open(cmd.Process.Pid, func() { t.Error("called after it was closed") })
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func sleeper(t *testing.T) *exec.Cmd {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}
