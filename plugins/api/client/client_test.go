package client_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/client"
)

// TestExplain: who cannot reach the agent is told why and what to try.
func TestExplain(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	rude := filepath.Join(dir, "rude.sock")
	r, err := net.Listen("unix", rude)
	if err != nil {
		t.Fatal(err)
	}
	hung := make(chan struct{})
	go func() { // takes every connection and closes it, as the agent does with strangers
		defer close(hung)
		for {
			conn, err := r.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	defer func() { r.Close(); <-hung }()
	for socket, want := range map[string]string{
		filepath.Join(dir, "none.sock"): "there is no such socket; is plumb-agent running? try `systemctl status plumb-agent`",
		dead:                            "nobody listens there; plumb-agent has died or is not running",
		rude:                            "closed the connection; it stopped, or it refuses this user",
	} {
		c := client.New(socket)
		_, err := c.Get(context.Background(), &apiv1.GetRequest{Key: "interface/web"})
		if got := c.Explain(err); got == nil || !strings.Contains(got.Error(), want) || !strings.Contains(got.Error(), socket) {
			t.Errorf("%s: got %v, want %s", socket, got, want)
		}
		c.Close()
	}
}
