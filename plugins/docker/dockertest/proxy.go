package dockertest

import (
	"bufio"
	"context"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy stands before the socket of an engine and does to its answers what
// networks, loads and bugs do.
type Proxy struct {
	// Host is the URL of the engine by way of the proxy.
	Host string

	upstream http.RoundTripper
	mu       sync.Mutex
	faults   Faults
	// cut ends the streams of events that stand.
	cut    chan struct{}
	events int
}

// Faults are what a proxy does wrong.
type Faults struct {
	// Delay of each answer, and of lists beside.
	Delay, ListDelay time.Duration
	// FailInspect and FailList have one call in so many answered with 500; 1 is
	// every one, 0 none.
	FailInspect, FailList int
	// DropEvent and DoubleEvent are about one event in so many.
	DropEvent, DoubleEvent int
	// HoldEvents leaves events unread, so that the engine has to keep them.
	HoldEvents bool
}

// Proxy starts a proxy, which ends with the test.
func (e *Engine) Proxy(t testing.TB) *Proxy {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "proxy.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Host: "unix://" + socket, cut: make(chan struct{})}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", e.Socket)
	}}
	p.upstream = transport
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "docker"})
	forward.Transport = transport
	forward.ErrorLog = log.New(io.Discard, "", 0)
	calls := 0
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := p.now()
		inspect, list := strings.Contains(r.URL.Path, "/containers/") && !strings.HasSuffix(r.URL.Path, "/containers/json"), strings.HasSuffix(r.URL.Path, "/containers/json")
		p.mu.Lock()
		calls++
		n := calls
		p.mu.Unlock()
		pause(r.Context(), f.Delay)
		switch {
		case strings.HasSuffix(r.URL.Path, "/events"):
			p.stream(w, r)
			return
		case inspect && hit(n, f.FailInspect), list && hit(n, f.FailList):
			http.Error(w, `{"message":"out of luck"}`, http.StatusInternalServerError)
			return
		case list:
			pause(r.Context(), f.ListDelay)
		}
		forward.ServeHTTP(w, r)
	})}}
	server.Start()
	t.Cleanup(func() {
		p.Cut()
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return p
}

func hit(n, every int) bool { return every > 0 && n%every == 0 }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Set says what the proxy does wrong from now on.
func (p *Proxy) Set(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = f
}

// Misbehave has the proxy do wrong in ways that change every half second, until
// ctx ends; then it does nothing wrong any more.
func (p *Proxy) Misbehave(ctx context.Context) {
	r := rand.New(rand.NewPCG(3, 4))
	for ; ctx.Err() == nil; pause(ctx, 500*time.Millisecond) {
		p.Set(Faults{
			Delay: time.Duration(r.IntN(2)*r.IntN(300)) * time.Millisecond, ListDelay: time.Duration(r.IntN(2)*r.IntN(3)) * time.Second,
			FailInspect: r.IntN(4), FailList: r.IntN(3), DropEvent: r.IntN(4), DoubleEvent: r.IntN(4), HoldEvents: r.IntN(4) == 0,
		})
		if r.IntN(4) == 0 {
			p.Cut()
		}
	}
	p.Set(Faults{})
}

// Cut ends all streams of events.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.cut)
	p.cut = make(chan struct{})
}

func (p *Proxy) now() Faults {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

// stream hands on a stream of events, line by line.
func (p *Proxy) stream(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	cut := p.cut
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		select {
		case <-cut:
		case <-ctx.Done():
		}
		cancel()
	}()
	req := r.Clone(ctx)
	req.URL.Scheme, req.URL.Host, req.RequestURI = "http", "docker", ""
	resp, err := p.upstream.RoundTrip(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	w.WriteHeader(resp.StatusCode)
	out := http.NewResponseController(w)
	_ = out.Flush()
	lines := bufio.NewReader(resp.Body)
	for ctx.Err() == nil {
		if p.now().HoldEvents {
			pause(ctx, 10*time.Millisecond)
			continue
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		p.mu.Lock()
		p.events++
		n, f := p.events, p.faults
		p.mu.Unlock()
		if hit(n, f.DropEvent) {
			continue
		}
		if hit(n, f.DoubleEvent) {
			line += line
		}
		if _, err := w.Write([]byte(line)); err != nil {
			return
		}
		_ = out.Flush()
	}
}
