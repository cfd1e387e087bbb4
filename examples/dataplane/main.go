package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// inside tells the process that it is in a network namespace of its own.
const inside = "DATAPLANE_INSIDE"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "dataplane:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if os.Getenv(inside) == "" {
		return apart(ctx)
	}
	return tell(ctx, os.Stdout, "")
}

// apart runs the program in a network namespace of its own, which ends with it.
func apart(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("it makes taps in a network namespace of its own: run it as root")
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), inside+"=yes")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}
