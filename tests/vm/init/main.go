// Command init is the first process of a virtual machine of package vm: it runs the
// commands of the machine and switches it off.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/tests/vm"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init is for the virtual machines of the tests")
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Println("init:", err)
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

var mounts = []struct{ kind, at string }{
	{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"}, {"tmpfs", "/var"},
	{"cgroup2", "/sys/fs/cgroup"},
}

// path is where all programs of the machine are.
const path = "/usr/sbin"

func run() error {
	_ = os.Setenv("PATH", path)
	for _, m := range mounts {
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	if err := os.Mkdir("/var/lib", 0o755); err != nil {
		return err
	}
	// A network to talk to oneself, and the device by which tun and tap are made.
	for _, args := range [][]string{{"modprobe", "tun"}, {"ip", "link", "set", "lo", "up"}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			fmt.Printf("%v: %v: %s\n", args, err, out)
		}
	}
	// As systemd does, so that cgroups below have figures of all.
	if err := os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+cpu +memory +io +pids +cpuset"), 0); err != nil {
		return err
	}
	// Else every type of tunnel that is loaded puts a link of its own into each namespace.
	if err := os.WriteFile("/proc/sys/net/core/fb_tunnels_only_for_init_net", []byte("1"), 0); err != nil {
		return err
	}
	answers, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err := raw(int(answers.Fd())); err != nil {
		return err
	}
	text, err := os.ReadFile("/commands")
	if err != nil {
		return err
	}
	var commands []vm.Command
	if err := json.Unmarshal(text, &commands); err != nil {
		return err
	}
	for _, c := range commands {
		fmt.Fprintf(answers, "%s%d\n", vm.EndMark, runOne(c, answers))
	}
	// What was written leaves by an emulated line, which takes its time.
	return unix.IoctlSetInt(int(answers.Fd()), unix.TCSBRK, 1)
}

// runOne runs a command and returns its exit code, -1 if it did not end by itself.
func runOne(c vm.Command, out *os.File) int {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = append([]string{"HOME=/root", "PATH=" + path, "TMPDIR=/tmp"}, c.Env...)
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(out, err)
		return -1
	}
	return cmd.ProcessState.ExitCode()
}

// raw lets bytes pass the line as they are.
func raw(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	t.Oflag &^= unix.OPOST
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}
