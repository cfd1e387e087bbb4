package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	client "github.com/fsouza/go-dockerclient"

	"github.com/plumb-net/plumb/plugins/container"
)

// Off, in place of a URL, says that Docker is not to be used.
const Off = "off"

// DefaultSocket is where an engine is looked for if nobody says where it is.
const DefaultSocket = "/var/run/docker.sock"

// Engine is a Docker Engine behind its API. It need not run: calls fail until
// it does.
type Engine struct {
	endpoint string
	// optional is the path of a socket whose absence means that there is no
	// engine on this host; "" if somebody said where the engine is.
	optional string
	// plain speaks to the engine without a version in the path.
	plain *client.Client

	mu sync.Mutex
	// agreed speaks the version agreed with the engine; nil until then.
	agreed *client.Client
	api    string // that version
	engine string // the version of the engine
}

var _ container.Runtime = (*Engine)(nil)

// New makes the Engine at a URL (unix:///path, tcp://host:port). With "" it is
// the one that DOCKER_HOST names, else the one behind DefaultSocket, if there
// is any. Over TCP, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH work as they do for
// the docker command.
func New(url string) (*Engine, error) {
	e := &Engine{endpoint: url}
	if e.endpoint == "" {
		e.endpoint = os.Getenv("DOCKER_HOST")
	}
	switch {
	case e.endpoint == Off:
		return nil, errors.New("docker is off")
	case e.endpoint == "":
		e.endpoint = "unix://" + DefaultSocket
		e.optional = DefaultSocket
	case strings.HasPrefix(e.endpoint, "/"):
		e.endpoint = "unix://" + e.endpoint
	}
	c, err := e.connect("")
	if err != nil {
		return nil, fmt.Errorf("docker at %s: %w; a URL is unix:///path, tcp://host:port or %q", e.endpoint, err, Off)
	}
	e.plain = c
	return e, nil
}

// connect makes a client for a version of the API, "" for none. It makes no call.
func (e *Engine) connect(version string) (*client.Client, error) {
	var c *client.Client
	var err error
	if os.Getenv("DOCKER_TLS_VERIFY") != "" && !strings.HasPrefix(e.endpoint, "unix:") {
		dir, dirErr := certDir()
		if dirErr != nil {
			return nil, dirErr
		}
		c, err = client.NewVersionedTLSClient(e.endpoint, filepath.Join(dir, "cert.pem"),
			filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem"), version)
	} else {
		c, err = client.NewVersionedClient(e.endpoint, version)
	}
	if err != nil {
		return nil, err
	}
	// The client's own check is a call without a deadline.
	c.SkipServerVersionCheck = true
	return c, nil
}

// certDir is where the certificates are. Without the one of the authority the
// client would trust anybody.
func certDir() (string, error) {
	dir := os.Getenv("DOCKER_CERT_PATH")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".docker")
	}
	if ca := filepath.Join(dir, "ca.pem"); missing(ca) {
		return "", fmt.Errorf("DOCKER_TLS_VERIFY is set, but there is no %s", ca)
	}
	return dir, nil
}

// Name is the prefix of Docker's containers.
func (e *Engine) Name() string { return "docker" }

// Endpoint is the URL of the engine.
func (e *Engine) Endpoint() string { return e.endpoint }

// Version returns the versions of the engine and of the API that is spoken.
func (e *Engine) Version(ctx context.Context) (string, error) {
	if _, err := e.client(ctx); err != nil {
		return "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Sprintf("%s, API %s", e.engine, e.api), nil
}

// Ping asks the engine whether it answers.
func (e *Engine) Ping(ctx context.Context) error {
	if err := e.plain.PingWithContext(ctx); err != nil {
		return e.explain(ctx, err)
	}
	return nil
}

// client returns a client that speaks a version the engine knows.
func (e *Engine) client(ctx context.Context) (*client.Client, error) {
	e.mu.Lock()
	agreed := e.agreed
	e.mu.Unlock()
	if agreed != nil {
		return agreed, nil
	}
	env, err := e.plain.VersionWithContext(ctx)
	if err != nil {
		return nil, e.explain(ctx, err)
	}
	api, err := choose(env.Get("ApiVersion"), env.Get("MinAPIVersion"))
	if err != nil {
		return nil, fmt.Errorf("docker engine %s: %w", env.Get("Version"), err)
	}
	c, err := e.connect(api)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.agreed, e.api, e.engine = c, api, env.Get("Version")
	return c, nil
}

// forget drops the agreed version: behind the socket may soon be another engine.
func (e *Engine) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.agreed = nil
}

// explain adds what a person needs to an error of a call.
func (e *Engine) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("docker at %s gave no answer: %w", e.endpoint, context.Cause(ctx))
	case e.optional != "" && missing(e.optional):
		return fmt.Errorf("%w: docker has no socket at %s", container.ErrAbsent, e.optional)
	case errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EACCES):
		return fmt.Errorf("docker at %s: %w; run the agent as root", e.endpoint, err)
	}
	return fmt.Errorf("docker at %s: %w", e.endpoint, err)
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}
