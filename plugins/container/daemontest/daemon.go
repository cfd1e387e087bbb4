// Package daemontest runs daemons of container engines for tests, each in a
// network namespace of its own: one beside the host's would take its bridge away.
package daemontest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Patience bounds the start of a daemon, its stop, and each command to it.
const Patience = 3 * time.Minute

// Daemon is a daemon that lasts no longer than its test.
type Daemon struct {
	T testing.TB
	// Dir holds all that the daemon keeps.
	Dir string

	name string
	// keeper is the process that holds the network namespace and, when it or
	// the test ends, clears away the daemon and all its containers.
	keeper *exec.Cmd
	cmd    *exec.Cmd
	exited chan struct{}
}

// The keeper sits in the network namespace until its input ends, which it does
// also when the test process dies in whatever way. Between the two parts stands
// what the kind of daemon must do to end all that it has started.
const (
	keep = `
dir=$1
ip link set lo up
echo ready
read -r _
mine() { # who has the directory in the command line
	for p in /proc/[0-9]*; do
		[ "${p#/proc/}" = $$ ] && continue
		tr '\0' ' ' <"$p/cmdline" 2>/dev/null | grep -qF "$dir/" && echo "${p#/proc/}"
	done
}
gone() { # waits for them, for some quarters of a second
	for i in $(seq "$1"); do
		[ -z "$(mine)" ] && break
		sleep 0.25
	done
}
`
	remove = `
for i in 1 2 3; do
	awk -v d="$dir/" 'index($2, d) == 1 {print $2}' /proc/mounts | sort -r | while read -r m; do umount -l "$m"; done
	rm -rf "$dir" && break
	sleep 0.25
done
`
)

// New makes the directory and the network namespace of a daemon. When the test
// ends the shell runs clear, which has $dir, the functions mine and gone, and is
// followed by the removal of the directory.
func New(t testing.TB, name, clear string) *Daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{T: t, Dir: dir, name: name}
	d.keeper = exec.Command("unshare", "--net", "sh", "-c", keep+clear+remove, name+"-keeper", dir)
	// It must outlive a signal that ends the test.
	d.keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	input, err := d.keeper.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := d.keeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.keeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = d.keeper.Wait()
		if d.exited != nil {
			<-d.exited
		}
	})
	if _, err := output.Read(make([]byte, len("ready\n"))); err != nil {
		t.Fatalf("no network namespace for %s: %v", name, err)
	}
	return d
}

// Launch starts the daemon and waits until it answers.
func (d *Daemon) Launch(answers func() bool, command ...string) {
	d.T.Helper()
	log, err := os.OpenFile(d.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.T.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command("nsenter", append([]string{"--net=" + d.NetnsPath()}, command...)...)
	cmd.Stdout, cmd.Stderr = log, log
	// A daemon has a session of its own, as under a service manager: a signal to the
	// group of the test is not meant for it, and Linux shares processor time between
	// sessions first (sched(7), autogroup).
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		d.T.Fatal(err)
	}
	exited := make(chan struct{})
	d.cmd, d.exited = cmd, exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	d.Eventually(d.name+" to answer", func() bool {
		select {
		case <-exited:
			d.T.Fatalf("%s ended while starting:\n%s", d.name, d.Log())
		default:
		}
		return answers()
	})
}

// Freeze halts the daemon, which then accepts connections and says nothing;
// Thaw lets it go on.
func (d *Daemon) Freeze() { d.T.Helper(); d.signal(syscall.SIGSTOP) }

// Thaw ends a Freeze.
func (d *Daemon) Thaw() { d.T.Helper(); d.signal(syscall.SIGCONT) }

// End sends the daemon a signal and waits until it has ended.
func (d *Daemon) End(s syscall.Signal) {
	d.T.Helper()
	d.signal(s)
	select {
	case <-d.exited:
	case <-time.After(Patience):
		d.T.Fatalf("%s did not end after %v:\n%s", d.name, s, d.Log())
	}
}

func (d *Daemon) signal(s syscall.Signal) {
	d.T.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		d.T.Fatalf("%s: %v: %v", d.name, s, err)
	}
}

// NetnsPath leads to the network namespace of the daemon.
func (d *Daemon) NetnsPath() string {
	return "/proc/" + strconv.Itoa(d.keeper.Process.Pid) + "/ns/net"
}

// Log is what the daemon has logged.
func (d *Daemon) Log() string {
	data, _ := os.ReadFile(d.logFile())
	return string(data)
}

func (d *Daemon) logFile() string { return filepath.Join(d.Dir, "log") }

// Eventually waits until done is true.
func (d *Daemon) Eventually(what string, done func() bool) {
	d.T.Helper()
	for end := time.Now().Add(Patience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			d.T.Fatalf("waited in vain for %s:\n%s", what, d.Log())
		}
	}
}
