package client_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/plugins/access"
	"github.com/plumb-net/plumb/plugins/access/accesstest"
	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/client"
)

// TestExplainRemote: who cannot reach an agent over the network is told why, and what to
// change.
func TestExplainRemote(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	ca, other := accesstest.New(t), accesstest.New(t)
	serve := func(c accesstest.Cert) string {
		p := ca.Issue(c)
		gate, err := access.Open(access.Files{Cert: p.Cert, Key: p.Key, ClientCA: ca.File}, access.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return apitest.ServeRemote(t, apitest.New().Config(), gate)
	}
	good, expired := serve(accesstest.Cert{Name: "agent"}), serve(accesstest.Cert{Name: "agent", Ends: time.Now().Add(-time.Hour)})
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(plain) }()
	t.Cleanup(func() { srv.Close(); <-done })
	with := func(address string, a *accesstest.Authority, c accesstest.Cert) client.Remote {
		c.Client = true
		p := a.Issue(c)
		return client.Remote{Address: address, CA: ca.File, Cert: p.Cert, Key: p.Key}
	}
	viewer := accesstest.Cert{Name: "vera", Roles: []string{"plumb:viewer"}}
	ended := viewer
	ended.Ends = time.Now().Add(-time.Hour)
	open := with(good, ca, viewer)
	if err := os.Chmod(open.Key, 0o640); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		remote client.Remote
		want   string
	}{
		"no certificate":    {client.Remote{Address: good, CA: ca.File}, "it wants a certificate; name cert and key in the context"},
		"another authority": {with(good, other, viewer), "it does not know the authority that signed our certificate"},
		"it has ended":      {with(good, ca, ended), "our certificate has expired; have another one signed"},
		"no role":           {with(good, ca, accesstest.Cert{Name: "vera"}), "the certificate of vera gives no role: its organization (O) must be plumb:viewer"},
		"too weak a role":   {with(good, ca, viewer), "vera is viewer; PutKV takes admin"},
		"the agent's ended": {with(expired, ca, viewer), "which is not now; renew it there, or look at this clock"},
		"no TLS":            {with(plain.Addr().String(), ca, viewer), "something else listens there, which does not speak TLS"},
		"an open key":       {open, "our certificate: others may read "},
		"an empty token":    {client.Remote{Address: good, CA: ca.File, TokenFile: empty}, "has to hold one word"},
		"no file":           {client.Remote{Address: good, CA: "/none"}, "our CA: open /none: no such file or directory"},
	} {
		// A client of TLS 1.3 may write before it reads why it is refused.
		var got string
		for range 50 {
			c := client.NewRemote(tc.remote)
			_, err := c.PutKV(context.Background(), &apiv1.PutKVRequest{Key: "config/a/b"})
			if got = "nothing"; err != nil {
				got = c.Explain(err).Error()
			}
			c.Close()
			if !strings.Contains(got, "it closed the connection") {
				break
			}
		}
		if !strings.Contains(got, tc.want) {
			t.Errorf("%s\n got %s\nwant %s", name, got, tc.want)
		}
	}
}
