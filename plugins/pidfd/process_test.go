package pidfd

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ways are both ways to hold a process.
var ways = map[string]func(int) (*Process, error){"pidfd": Open, "start time": OpenByStartTime}

// TestEnd holds real processes: their end is noticed before they are reaped, and who has
// ended is not held.
func TestEnd(t *testing.T) {
	for name, open := range ways {
		t.Run(name, func(t *testing.T) {
			cmd := sleeper(t)
			p, err := open(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			ended := make(chan struct{})
			p.OnEnd(func() { close(ended) })
			select {
			case <-ended:
				t.Fatal("it ended before it was killed")
			default:
			}
			if !p.Alive() {
				t.Error("it is said not to live")
			}
			if err := p.Kill(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, ended)
			if err := p.Kill(); err != nil {
				t.Errorf("one that has ended: %v", err)
			}
			if p.Alive() {
				t.Error("it is said to live")
			}
			if zombie, err := open(cmd.Process.Pid); err == nil && zombie.Alive() {
				t.Error("a process that has ended is said to live")
			}
			_ = cmd.Wait()
			if _, err := open(cmd.Process.Pid); !errors.Is(err, unix.ESRCH) {
				t.Errorf("a process that was reaped was opened: %v", err)
			}
			late := make(chan struct{})
			p.OnEnd(func() { close(late) })
			waitFor(t, late)
		})
	}
}

// TestClose: nothing is heard of a process after it was closed.
func TestClose(t *testing.T) {
	for name, open := range ways {
		t.Run(name, func(t *testing.T) {
			cmd := sleeper(t)
			p, err := open(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			p.OnEnd(func() { t.Error("called after it was closed") })
			p.Close()
			p.Close()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if p.wait() {
				t.Error("the wait of a process that was closed says that it ended")
			}
		})
	}
}

func waitFor(t *testing.T, ended chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		t.Fatal("its end was not noticed")
	}
}

func sleeper(t *testing.T) *exec.Cmd {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}
