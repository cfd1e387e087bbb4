package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// asServer in the environment makes a program the server. Its value is the order.
const asServer = "PLUMB_EMBEDDED_ETCD"

// order is what a process is started for.
type order struct {
	Serve *Config `json:"serve,omitempty"`
	// Read is a database whose keys are told.
	Read string `json:"read,omitempty"`
}

// What a process says on its standard output. What it logs goes to standard error.
const (
	saysReady = "ready"
	saysError = "error: "
)

// closeTime is how long the server may take to end when the agent has ended.
const closeTime = 2 * time.Second

// Main is the life of the process that [Launch] starts: if this process is
// one, it does not return. A program that uses Launch calls it before anything
// else.
func Main() {
	text, asked := os.LookupEnv(asServer)
	if !asked {
		return
	}
	// The agent says when it is over. A signal to the group is the agent's to judge.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	var o order
	err := json.Unmarshal([]byte(text), &o)
	switch {
	case err != nil:
	case o.Serve != nil:
		syscall.Umask(0o077)                                             // etcd makes snapshots that all may read
		_ = os.WriteFile("/proc/self/comm", []byte("plumb-etcd"), 0o600) // not "exe"; for who reads ps
		err = serve(*o.Serve)
	case o.Read != "":
		tellKeys(o.Read, os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stdout, "%s%v\n", saysError, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs the server until the agent ends or closes it.
func serve(c Config) error {
	c.Log = slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		time.AfterFunc(closeTime, func() { os.Exit(1) })
		cancel(errAgentEnded)
	}()
	s, err := Start(ctx, c)
	if err != nil {
		return err
	}
	fmt.Println(saysReady)
	select {
	case <-ctx.Done():
		s.Close()
		return nil
	case <-s.Done():
		return errStopped
	}
}
