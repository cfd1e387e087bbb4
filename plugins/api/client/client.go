package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"syscall"

	"connectrpc.com/connect"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/apiv1/apiv1connect"
	"github.com/plumb-net/plumb/plugins/private"
)

// maxIdle is how many connections to an agent are kept for calls at the same time. Two, which
// is what net/http keeps, would have a busy client dial for most of its calls.
const maxIdle = 32

// DefaultSocket is where an agent listens unless told otherwise.
const DefaultSocket = "/run/plumb/agent.sock"

// Calls is what the paths of all calls begin with.
const Calls = "/" + apiv1connect.AgentName + "/"

// Client is every call of the service, made to one agent.
type Client struct {
	apiv1connect.AgentClient
	// url goes before paths, and at is where the agent is, for people.
	url, at string
	remote  bool
	http    *http.Client
	counted *counted
}

// New makes a client of an agent of this host, by its socket. It connects when it is first
// used.
func New(socket string, more ...connect.ClientOption) *Client {
	h := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return private.Dial(ctx, socket)
		},
		DisableCompression:  true,
		MaxIdleConnsPerHost: maxIdle,
	}}
	h.Transport = &attentive{
		RoundTripper: h.Transport, patience: defaultPatience, ask: askSocket(socket), at: socket,
		holder: func() int { return private.LockHolder(socket + ".lock") },
	}
	// Compression costs more than a local socket.
	plain := connect.WithAcceptCompression("gzip", nil, nil)
	return newClient(h, "http://agent", socket, append(more, plain))
}

func newClient(h *http.Client, base, at string, more []connect.ClientOption) *Client {
	counted := &counted{RoundTripper: h.Transport}
	h.Transport = counted
	return &Client{apiv1connect.NewAgentClient(h, base, more...), base, at, strings.HasPrefix(base, "https://"), h, counted}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Forward passes requests on to the agent as they are, with what proves who we are: calls
// and pages.
func (c *Client) Forward() http.Handler {
	to, err := url.Parse(c.url)
	if err != nil {
		panic(err) // it is one of ours
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Del("Origin")
		},
		Transport:     c.http.Transport,
		FlushInterval: -1, // streams
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_ = json.NewEncoder(w).Encode(map[string]string{"code": "unavailable", "message": c.Explain(err).Error()})
		},
	}
}

// Page fetches what the agent serves beside the service: /metrics, /readyz. Who may not see
// it gets an *Error.
func (c *Client) Page(ctx context.Context, path string) (status int, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if code := refusals[resp.StatusCode]; code != 0 && err == nil {
		var why struct{ Message string }
		_ = json.Unmarshal(body, &why)
		return 0, nil, &Error{Code: code, Message: why.Message}
	}
	return resp.StatusCode, body, err
}

// refusals are the answers to those who may not see a page.
var refusals = map[int]connect.Code{
	http.StatusUnauthorized: connect.CodeUnauthenticated,
	http.StatusForbidden:    connect.CodePermissionDenied,
}

// Explain makes an error of a call one for people: what went wrong, and what
// to do next.
func (c *Client) Explain(err error) error {
	var answer *connect.Error
	var ours *setupError
	var said *Error
	var silent *Silent
	switch {
	case err == nil:
		return nil
	case errors.As(err, &silent):
		return silent
	case errors.As(err, &ours):
		return ours.error
	case errors.As(err, &said):
		return said
	case !c.remote && isDial(err):
		return fmt.Errorf("cannot reach the agent at %s: %s", c.at, unreachable(c.at, err))
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case errors.As(err, &answer) && connect.IsWireError(err):
		return &Error{Code: answer.Code(), Message: answer.Message(), Invalid: invalid(answer)}
	case c.remote:
		if why := explainRemote(err); why != "" {
			return fmt.Errorf("cannot reach the agent at %s: %s", c.at, why)
		}
	case hungUp(err):
		return fmt.Errorf("the agent at %s closed the connection; it stopped, or it refuses this user: only root and the agent's own user may ask", c.at)
	}
	return fmt.Errorf("the agent at %s: %w", c.at, err)
}

// hungUp reports whether the other side closed the connection. What net/http says when
// that happens before the request is written it does not export.
func hungUp(err error) bool {
	for _, is := range []error{syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, is) {
			return true
		}
	}
	return strings.Contains(err.Error(), "server closed idle connection")
}

// Error is what the agent answered.
type Error struct {
	Code    connect.Code
	Message string
	// Invalid are the values that were refused.
	Invalid []*apiv1.InvalidValue
}

func (e *Error) Error() string { return e.Message }

func invalid(e *connect.Error) []*apiv1.InvalidValue {
	var out []*apiv1.InvalidValue
	for _, d := range e.Details() {
		if v, err := d.Value(); err == nil {
			if i, ok := v.(*apiv1.InvalidValue); ok {
				out = append(out, i)
			}
		}
	}
	return out
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// unreachable says why nobody answers, and what to try.
func unreachable(socket string, err error) string {
	const other = "or name its socket with --socket or PLUMB_SOCKET"
	var stranger *private.Stranger
	switch {
	case errors.As(err, &stranger):
		return fmt.Sprintf("user %d listens there, not root; nothing was sent. Who put it there? Remove it, ", stranger.UID) + other
	case errors.Is(err, syscall.ENOENT):
		return "there is no such socket; is plumb-agent running? try `systemctl status plumb-agent`, " + other
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody listens there; plumb-agent has died or is not running; try `systemctl status plumb-agent`, " + other
	case errors.Is(err, syscall.EAGAIN):
		return "it accepts no connections, and too many wait: " + private.Process(private.LockHolder(socket+".lock"))
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return "permission denied; only root and the agent's own user may ask; try sudo"
	}
	var op *net.OpError
	errors.As(err, &op)
	return op.Err.Error() + "; is plumb-agent running? " + other
}
