package apitest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/access"
	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/plugins/events"
	"github.com/plumb-net/plumb/plugins/loglevel"
	"github.com/plumb-net/plumb/plugins/resources"
)

// Noon is when everything happens.
func Noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

// Agent is an agent in memory.
type Agent struct {
	Store      *Store
	Engine     *Engine
	Containers *Containers
	// Resources is what containers use; nil: it is not sampled.
	Resources Resources
	CNI       *CNI
	Events    *events.Log
	Parts     []models.Health
	// Accepted counts calls of resync --accept.
	Accepted int
}

// New makes one that knows of nothing, where all is well.
func New() *Agent {
	e := newEngine()
	return &Agent{
		Store: NewStore(func(changes []models.Write) {
			for _, c := range changes {
				e.heard(c.Key, c.Value)
			}
		}), Engine: e, Containers: &Containers{}, CNI: &CNI{}, Events: events.New(events.Limits{PerType: 3}, nil, 0),
		Parts: []models.Health{
			{Name: "etcd", State: "ok", Reason: "embedded", Since: Noon()},
			{Name: "containerd", State: "off", Since: Noon()},
		},
	}
}

// Config of a server of this agent.
func (a *Agent) Config() api.Config {
	c := api.Config{
		Scheduler: a.Engine, Store: a.Store, Containers: a.Containers, CNI: a.CNI, Events: a.Events,
		Place: func(source, key string) string {
			if source == "files" {
				return "/etc/plumb/" + models.Escape(key) + ".yaml"
			}
			return ""
		},
		Health:  func() []models.Health { return a.Parts },
		Accept:  func(context.Context) error { a.Accepted++; return nil },
		Metrics: http.HandlerFunc(metrics),
		Recent:  http.HandlerFunc(recent),
		Levels:  loglevel.New("etcd"),
		Label:   "host1", Version: "v0.0.0-test", Commit: "abcdef", Started: Noon().Add(-time.Hour),
		Now: Noon,
	}
	if a.Resources != nil {
		c.Resources = a.Resources
	}
	return c
}

// Serve serves the agent until the test ends and returns its socket.
func Serve(t testing.TB, c api.Config) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "run", "agent.sock")
	srv, err := api.New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := api.Listen(socket, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return socket
}

// ServeRemote serves the agent over the network until the test ends, to those whom the gate
// knows, and returns its address.
func ServeRemote(t testing.TB, c api.Config, gate *access.Gate) (address string) {
	t.Helper()
	srv, err := api.New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.ServeRemote(ctx, l, gate) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

// CNI is what the service of CNI would know.
type CNI struct {
	All           []cni.Attachment
	Waiting       []cni.Pending
	Queue, Unread []wire.Left
	Lost          []cni.Forgotten
}

// Forgotten implements the port.
func (c *CNI) Forgotten(context.Context) ([]cni.Forgotten, error) { return c.Lost, nil }

// take finds one by its container or digest, and takes it out.
func (c *CNI) take(id string) (cni.Forgotten, error) {
	for i, f := range c.Lost {
		if id == f.Key.ContainerID || id == f.Digest {
			c.Lost = slices.Delete(c.Lost, i, i+1)
			return f, nil
		}
	}
	return cni.Forgotten{}, fmt.Errorf("%w: nothing is called %s", cni.ErrNoSuch, id)
}

// Adopt implements the port. What has no container cannot be adopted.
func (c *CNI) Adopt(_ context.Context, id string) (cni.Attachment, error) {
	f, err := c.take(id)
	if err == nil && f.Key.ContainerID == "" {
		err = fmt.Errorf("%w: name it by the container's id", cni.ErrNotAsFound)
	}
	return cni.Attachment{Key: f.Key, Phase: cni.Added, Netns: f.Netns}, err
}

// Forget implements the port.
func (c *CNI) Forget(_ context.Context, id string) (cni.Forgotten, string, error) {
	f, err := c.take(id)
	return f, "", err
}

// Attachments implements the port.
func (c *CNI) Attachments() []cni.Attachment { return c.All }

// Pending implements the port.
func (c *CNI) Pending() []cni.Pending { return c.Waiting }

// Cuts says that nothing is stopped.
func (c *CNI) Cuts() map[string]string { return nil }

// Left implements the port.
func (c *CNI) Left() (left, bad []wire.Left, err error) { return c.Queue, c.Unread, nil }

// Containers is what a tracker would know.
type Containers struct {
	All     map[string]*models.Container
	Serving map[string]*models.Microservice
	Parts   []models.Health
	Unknown error
}

// Containers implements the port.
func (c *Containers) Containers() (map[string]*models.Container, error) { return c.All, c.Unknown }

// Microservices implements the port.
func (c *Containers) Microservices() (map[string]*models.Microservice, error) {
	return c.Serving, c.Unknown
}

// Health implements the port.
func (c *Containers) Health() []models.Health { return c.Parts }

// Resources is what is kept of containers, by key.
type Resources map[string]resources.Detail

// Latest implements the port.
func (r Resources) Latest() (all []resources.Latest) {
	for _, key := range slices.Sorted(maps.Keys(r)) {
		if r[key].End.IsZero() && r[key].Container != nil {
			all = append(all, r[key].Latest)
		}
	}
	return all
}

// Machine implements the port. Of what the machine leaves out, / tells.
func (r Resources) Machine() (all []resources.Latest, leftOut int) {
	for _, key := range slices.Sorted(maps.Keys(r)) {
		if r[key].Container == nil {
			all, leftOut = append(all, r[key].Latest), leftOut+r[key].LeftOut
		}
	}
	return all, leftOut
}

// Detail implements the port.
func (r Resources) Detail(key string) (resources.Detail, bool) {
	d, ok := r[key]
	return d, ok
}

// metrics is a page for /metrics.
func metrics(w http.ResponseWriter, _ *http.Request) {
	io.WriteString(w, "# HELP plumb_one One.\n# TYPE plumb_one gauge\nplumb_one 1\n# HELP plumb_two Two.\n# TYPE plumb_two counter\nplumb_two{kind=\"route\"} 2\n")
}

// recent is a log with a secret in it.
func recent(w http.ResponseWriter, _ *http.Request) {
	io.WriteString(w, "time=2026-01-02T12:00:00Z level=INFO msg=\"plumb-agent starts\" password=hunter2\n")
}
