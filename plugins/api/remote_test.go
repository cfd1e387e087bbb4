package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/plugins/access"
	"github.com/plumb-net/plumb/plugins/access/accesstest"
	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/apiv1/apiv1connect"
	"github.com/plumb-net/plumb/plugins/tlsfiles"
)

// remote is an agent that is served over the network, and who may ask it.
type remote struct {
	*apitest.Agent
	log    syncBuffer
	url    string
	tokens map[string]string
	http   *http.Client
}

type syncBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// take returns what was written since.
func (s *syncBuffer) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.b.String()
	s.b.Reset()
	return text
}

// newRemote serves an agent at which vera is viewer, oleg operator and ada admin.
func newRemote(t *testing.T) *remote {
	t.Helper()
	r := &remote{Agent: apitest.New(), tokens: map[string]string{}}
	ca := accesstest.New(t)
	pair := ca.Issue(accesstest.Cert{Name: "agent"})
	var lines string
	for name, role := range map[string]access.Role{"vera": access.Viewer, "oleg": access.Operator, "ada": access.Admin} {
		token, e, err := access.NewToken(name, role)
		if err != nil {
			t.Fatal(err)
		}
		r.tokens[name] = token
		lines += e.String() + "\n"
	}
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	gate, err := access.Open(access.Files{Cert: pair.Cert, Key: pair.Key, Tokens: file}, access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := r.Config()
	c.Log = slog.New(c.Levels.Handler(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	r.url = "https://" + apitest.ServeRemote(t, c, gate)
	files, err := tlsfiles.Open(tlsfiles.Files{CA: ca.File}, tlsfiles.Options{Read: os.ReadFile})
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{TLSClientConfig: files.Client(), ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	r.http = &http.Client{Transport: bearer{tr, r.tokens}}
	return r
}

// bearer shows the token of whom a request names.
type bearer struct {
	http.RoundTripper
	tokens map[string]string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if token := b.tokens[r.Header.Get("As")]; token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return b.RoundTripper.RoundTrip(r)
}

// TestAudit: who asks for what, what is answered, and what the log says of it. A line of a
// question is NAME CALL JSON, or NAME PAGE.
func TestAudit(t *testing.T) {
	r := newRemote(t)
	build(t, r.Agent, `{"key":"route/r1","state":"pending","origin":"etcd","missing":[{"need":"interface/web","why":"it leaves by it"}],"desired":{"interface":"web","destination":"10.0.0.0/8"}}`)
	varies := regexp.MustCompile(`time=\S+ | took=\S+`)
	datadriven.RunTest(t, "testdata/audit", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for line := range strings.SplitSeq(d.Input, "\n") {
			name, rest, _ := strings.Cut(line, " ")
			call, body, _ := strings.Cut(rest, " ")
			method, path := http.MethodPost, "/plumb.api.v1.Agent/"+call
			if strings.HasPrefix(call, "/") {
				method, path = http.MethodGet, call
			}
			req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("As", name)
			resp, err := r.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			text = bytes.ReplaceAll(text, []byte("\u00a0"), []byte(" ")) // which protobuf uses in errors at random
			fmt.Fprintf(&out, "%d %.300s\n", resp.StatusCode, bytes.TrimSpace(text))
		}
		out.WriteString(varies.ReplaceAllString(r.log.take(), ""))
		return out.String()
	})
}

// TestRemoteGRPC: gRPC works over the network, and so do its errors.
func TestRemoteGRPC(t *testing.T) {
	r := newRemote(t)
	build(t, r.Agent, `{"key":"interface/web","state":"configured"}`)
	c := apiv1connect.NewAgentClient(r.http, r.url, connect.WithGRPC(), connect.WithInterceptors(as("vera")))
	st, err := c.Get(t.Context(), &apiv1.GetRequest{Key: "interface/web"})
	if err != nil || st.State != "configured" {
		t.Errorf("get: %v, %v", st, err)
	}
	if _, err = c.Delete(t.Context(), &apiv1.DeleteRequest{Keys: []string{"interface/web"}}); connect.CodeOf(err) != connect.CodePermissionDenied || err.Error() != "permission_denied: vera is viewer; Delete takes operator" {
		t.Errorf("delete: %v", err)
	}
	c = apiv1connect.NewAgentClient(r.http, r.url, connect.WithGRPC())
	if _, err = c.Get(t.Context(), &apiv1.GetRequest{Key: "interface/web"}); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("without a token: %v", err)
	}
}

func as(name string) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			r.Header().Set("As", name)
			return next(ctx, r)
		}
	}
}

// TestRolesAreDocumented: docs/security.md has the table of what each role is needed for.
func TestRolesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range access.Roles {
		row := fmt.Sprintf("| `%s` | `%s` |\n", role, strings.Join(api.Needs(role), "` `"))
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/security.md lacks the row\n%s", row)
		}
	}
}
