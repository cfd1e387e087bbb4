package netlinktest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Actor is an ip(8) that is told line by line what to do in a namespace, and lives on with
// the socket by which it did it.
type Actor struct {
	Pid int

	cmd *exec.Cmd
	in  io.WriteCloser
	out *os.File
}

// Actor starts one, with options of ip(8).
func (n *Namespace) Actor(t testing.TB, options ...string) *Actor {
	t.Helper()
	command := append([]string{"--net=" + n.Path, "--", "ip", "-o"}, options...)
	a := &Actor{cmd: exec.Command("nsenter", append(command, "-batch", "-")...)}
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.out = out.(*os.File)
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a.Pid = a.cmd.Process.Pid // nsenter becomes ip
	t.Cleanup(a.End)
	return a
}

// Tell has it do something.
func (a *Actor) Tell(what string) { fmt.Fprintln(a.in, what) }

// Do has it do something, and waits until it has: lo is shown after that. The end of the
// line may be left in its buffer.
func (a *Actor) Do(t testing.TB, what string) {
	t.Helper()
	a.Tell(what + "\nlink show dev lo")
	_ = a.out.SetReadDeadline(time.Now().Add(Patience))
	var said strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(said.String(), "link/loopback") {
		n, err := a.out.Read(buf)
		said.Write(buf[:n])
		if err != nil {
			t.Fatalf("ip %s: %v\n%s", what, err, &said)
		}
	}
}

// Name is how it is named for people.
func (a *Actor) Name() string { return fmt.Sprintf("ip (process %d)", a.Pid) }

// End ends it, with its socket.
func (a *Actor) End() {
	_ = a.in.Close()
	_ = a.cmd.Wait()
}
