package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/fsouza/go-dockerclient"
	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/plugins/container"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers on a socket like an engine, with further paths.
func serve(t *testing.T, api, least string, paths map[string]http.HandlerFunc) *Engine {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "docker.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"Version":"20.10.24","ApiVersion":%q,"MinAPIVersion":%q}`, api, least)
	})
	for path, h := range paths {
		mux.HandleFunc(path, h)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux}}
	server.Start()
	t.Cleanup(server.Close)
	e, err := New("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestChooseVersion(t *testing.T) {
	for _, c := range []struct{ theirs, least, want string }{
		{"1.41", "1.12", "1.41"},
		{"1.24", "", "1.24"},
		{newestAPI, "1.24", newestAPI},
		{"1.99", "1.44", newestAPI},
		{"1.99", "1.60", "1.60"},
		{"1.23", "1.12", "error: its API is 1.23, at least 1.24 is needed; upgrade Docker"},
		{"", "", "error: it names no version of its API"},
	} {
		got, err := choose(c.theirs, c.least)
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("engine with %q to %q: %s, want %s", c.least, c.theirs, got, c.want)
		}
	}
}

// TestEvents: ids come in the order of the stream, only of what can change a
// container, and ready comes before the first.
func TestEvents(t *testing.T) {
	lines := []string{
		`{"Type":"container","Action":"create","Actor":{"ID":"a"}}`,
		`{"Type":"network","Action":"connect","Actor":{"ID":"net","Attributes":{"container":"a"}}}`,
		`{"Type":"container","Action":"exec_create: sh -c die","Actor":{"ID":"x"}}`,
		`{"Type":"container","Action":"exec_die","Actor":{"ID":"x"}}`,
		`{"Type":"container","Action":"health_status: healthy","Actor":{"ID":"x"}}`,
		`{"Type":"container","Action":"somethingnew","Actor":{"ID":"b"}}`,
		`{"Type":"container","Action":"die","Actor":{"ID":"c","Attributes":{"exitCode":"1","name":"web","image":"bb"}},"timeNano":1700000000000000001}`,
		`{"Type":"container","Action":"stop","Actor":{"ID":"c"},"timeNano":1700000000000000002}`,
		`{"Type":"container","Action":"die","Actor":{"ID":"d"},"timeNano":1700000000000000003}`,
		`{"Type":"network","Action":"create","Actor":{"ID":"net"}}`,
	}
	e := serve(t, "1.41", "1.12", map[string]http.HandlerFunc{
		"/v1.41/events": func(w http.ResponseWriter, r *http.Request) {
			if got := r.URL.Query().Get("filters"); got != `{"type":["container","network"]}` {
				t.Errorf("filters %s", got)
			}
			for _, l := range lines {
				_, _ = fmt.Fprintln(w, l)
			}
		},
	})
	var heard []string
	err := e.Events(t.Context(), func() { heard = append(heard, "ready") }, func(h container.Hint) {
		text := h.ID
		if !h.At.IsZero() {
			text += fmt.Sprint(" ", h.Says, " ", h.Exit, " ", h.Name, h.At.UnixNano()%10)
		}
		heard = append(heard, text)
	})
	if want := []string{"ready", "a", "a", "b", "c died 1 web1", "c", "d died -1 3"}; !slices.Equal(heard, want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
	if err == nil || err.Error() != "docker ended the stream of events" {
		t.Errorf("error %v", err)
	}
}

// TestEventsEnd: a silent stream ends with its context, and a refused one says why.
func TestEventsEnd(t *testing.T) {
	e := serve(t, "1.41", "", map[string]http.HandlerFunc{
		"/v1.41/events": func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	err := e.Events(ctx, cancel, func(container.Hint) {})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	e = serve(t, "1.41", "", map[string]http.HandlerFunc{
		"/v1.41/events": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no events for you", http.StatusForbidden) },
	})
	err = e.Events(t.Context(), func() { t.Error("ready") }, func(container.Hint) {})
	if err == nil || !strings.Contains(err.Error(), "no events for you") {
		t.Errorf("error %v", err)
	}
	e = serve(t, "1.41", "", map[string]http.HandlerFunc{
		"/v1.41/events": func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, `{"Type":7}`) },
	})
	if err := e.Events(t.Context(), func() {}, func(container.Hint) {}); err == nil {
		t.Error("a stream that makes no sense was read to its end")
	}
}

// TestDeadline: an engine that accepts calls and says nothing holds up no
// caller beyond its deadline, from the very first call.
func TestDeadline(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "docker.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	e, err := New("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := e.List(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("list: %v", err)
	}
	if _, err := e.Inspect(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("inspect: %v", err)
	}
	if err := e.Events(ctx, func() { t.Error("ready") }, func(container.Hint) {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("events: %v", err)
	}
}

// TestInspectErrors tells a container that is gone from an engine in trouble.
func TestInspectErrors(t *testing.T) {
	e := serve(t, "1.41", "", map[string]http.HandlerFunc{
		"/v1.41/containers/gone/json": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"message":"No such container: gone"}`, http.StatusNotFound)
		},
		"/v1.41/containers/bad/json": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"message":"layer is broken"}`, http.StatusInternalServerError)
		},
	})
	if _, err := e.Inspect(t.Context(), "gone"); !errors.Is(err, container.ErrNotFound) {
		t.Errorf("gone: %v", err)
	}
	if _, err := e.Inspect(t.Context(), "bad"); err == nil || errors.Is(err, container.ErrNotFound) || !strings.Contains(err.Error(), "layer is broken") {
		t.Errorf("bad: %v", err)
	}
}

// TestWhichEngine: a socket that is missing means "no Docker here" only if
// nobody said where Docker is.
func TestWhichEngine(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "none.sock")
	t.Setenv("DOCKER_HOST", "")
	auto, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	if auto.Endpoint() != "unix:///var/run/docker.sock" || auto.optional == "" {
		t.Errorf("by default: %s", auto.Endpoint())
	}
	auto.optional, auto.plain = nowhere, mustClient(t, nowhere)
	if _, err := auto.List(t.Context()); !errors.Is(err, container.ErrAbsent) {
		t.Errorf("auto-detect: %v", err)
	}
	said, err := New("unix://" + nowhere)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := said.List(t.Context()); err == nil || errors.Is(err, container.ErrAbsent) {
		t.Errorf("said: %v", err)
	}
	t.Setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
	byEnv, err := New("")
	if err != nil || byEnv.Endpoint() != "tcp://192.0.2.1:2375" || byEnv.optional != "" || byEnv.base() != "http://192.0.2.1:2375" {
		t.Errorf("by environment: %+v, %v", byEnv, err)
	}
	t.Setenv("DOCKER_TLS_VERIFY", "1")
	t.Setenv("DOCKER_CERT_PATH", t.TempDir())
	if _, err := New(""); err == nil || !strings.Contains(err.Error(), "ca.pem") {
		t.Errorf("without the authority's certificate: %v", err)
	}
	for _, bad := range []string{Off, "ftp://x"} {
		if _, err := New(bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func mustClient(t *testing.T, socket string) *client.Client {
	e, err := New("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	return e.plain
}
