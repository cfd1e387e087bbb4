package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/client"
	"github.com/plumb-net/plumb/plugins/ui"
)

func newUI(c *cli) *cobra.Command {
	var listen string
	var noOpen bool
	cmd := formats(noFormats, &cobra.Command{
		Use:   "ui",
		Short: "Show the network in a browser",
		Long: `UI serves a page on this host's loopback until it is interrupted, and prints its
address: the network as it is and as it should be, live; what happened, and the network
as it was; what an intent file would do, and doing it.

The address lets one browser in, once. What may be done on the page is what whoever
runs agentctl may do.`,
		Example: `  agentctl ui
  agentctl ui --listen 127.0.0.1:8080 --no-open
  agentctl --context edge1 ui`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.serveUI(cmd.Context(), listen, !noOpen)
		},
	})
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address on loopback; port 0: a free one")
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "do not start a browser")
	return cmd
}

func (c *cli) serveUI(ctx context.Context, address string, open bool) error {
	if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().IsLoopback() {
		return fmt.Errorf("--listen %s: the page is for this host alone; give an address on loopback with a port, such as 127.0.0.1:8080, and reach it from elsewhere by ssh -L", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle(ui.Path, ui.Handler())
	mux.Handle(client.Calls, c.agent().Forward())
	gate := ui.NewGate(l.Addr().String(), mux)
	srv := &http.Server{Handler: gate, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	fmt.Fprintln(c.stdout, gate.URL())
	c.tell("open this address in a browser; Ctrl-C ends")
	if open && c.terminal {
		c.browse(gate.URL())
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	srv.Close() // its streams have no end
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// browse starts the browser of who has a desktop here. Who has none opens the address
// himself.
func (c *cli) browse(url string) {
	opener, err := exec.LookPath("xdg-open")
	if err != nil || strings.TrimSpace(c.getenv("DISPLAY")+c.getenv("WAYLAND_DISPLAY")) == "" {
		return
	}
	cmd := exec.Command(opener, url)
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }()
	}
}
