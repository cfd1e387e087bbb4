// Command hosts runs a command while this machine is in the state in which other software
// leaves a host: the network settings of a profile, firewall rules, network namespaces and
// routes of others. It restores the machine afterwards.
//
//	hosts PROFILE COMMAND [ARG...]
//	hosts PROFILE
//
// Without a command it leaves the machine in that state, which is for virtual machines. It
// exits with the exit code of the command. A profile is one of package netlinktest.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "hosts:", err)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	if len(args) == 0 {
		return 2, errors.New("usage: hosts PROFILE [COMMAND [ARG...]]")
	}
	p, err := netlinktest.ProfileByName(args[0])
	if err != nil {
		return 2, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	restore, err := occupy(ctx, p)
	if err != nil {
		return 1, errors.Join(err, restore())
	}
	if args = args[1:]; len(args) == 0 {
		return 0, nil
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	// A signal ends the command as it would without us, and the machine is restored after it.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code, err = max(exit.ExitCode(), 1), nil
	} else if err != nil {
		code = 1
	}
	if undone := restore(); undone != nil {
		return 1, errors.Join(err, fmt.Errorf("restore the machine: %w", undone))
	}
	return code, err
}
