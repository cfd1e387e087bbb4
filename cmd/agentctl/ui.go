package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"

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

The address lets one browser in, once, and only a browser of root or of the user who
started agentctl, also by sudo. The page makes the calls that it needs, with the rights
of agentctl.`,
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
	who, err := c.desktopUser()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", address, err)
	}
	page := ui.NewServer(l, ui.Config{Users: []int{who}, Service: client.Calls, Agent: c.agent().Forward()})
	fmt.Fprintln(c.stdout, page.URL())
	c.tell("open this address in a browser; Ctrl-C ends")
	if open && c.terminal {
		closed := c.browse(who, page.URL())
		defer closed()
	}
	return page.Serve(ctx)
}
