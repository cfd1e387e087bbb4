// Command agentctl asks an agent what is, tells it what should be, and finds
// out why something is not so. See `agentctl --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/plumb-net/plumb/plugins/progress"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, env{
		args:   os.Args[1:],
		stdin:  os.Stdin,
		stdout: os.Stdout,
		stderr: os.Stderr,
		getenv: os.Getenv,
		color:  isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",

		terminal: isTerminal(os.Stdout),
		live:     progress.Of(os.Stderr, os.Getenv("TERM")),
		now:      time.Now,
	})
	stop()
	os.Exit(code)
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
