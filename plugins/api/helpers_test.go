package api_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/api/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves an agent and returns a client of it.
func start(t *testing.T) (*apitest.Agent, *client.Client) {
	t.Helper()
	w := apitest.New()
	return w, dial(t, apitest.Serve(t, w.Config()))
}

func dial(t *testing.T, socket string) *client.Client {
	t.Helper()
	c := client.New(socket)
	t.Cleanup(c.Close)
	return c
}

// plainHTTP is a client that knows nothing of the service, as curl is.
func plainHTTP(t *testing.T, socket string, protocols *http.Protocols) *http.Client {
	t.Helper()
	tr := &http.Transport{
		Protocols: protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// build fills an agent from lines; see apitest.Script.
func build(t *testing.T, w *apitest.Agent, lines string) {
	t.Helper()
	if err := w.Script(lines); err != nil {
		t.Fatal(err)
	}
}
