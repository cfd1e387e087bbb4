package docker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	client "github.com/fsouza/go-dockerclient"

	"github.com/plumb-net/plumb/plugins/container"
)

// List returns all containers, also those that do not run.
func (e *Engine) List(ctx context.Context) ([]container.Summary, error) {
	c, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	found, err := c.ListContainers(client.ListContainersOptions{All: true, Context: ctx})
	if err != nil {
		return nil, e.explain(ctx, err)
	}
	all := make([]container.Summary, len(found))
	for i, f := range found {
		all[i] = container.Summary{
			ID: f.ID, Name: listedName(f.Names),
			Running: f.State == "running" || f.State == "paused",
		}
	}
	return all, nil
}

// listedName is the container's own name: links of others contain a slash.
func listedName(names []string) string {
	for _, n := range names {
		if n = strings.TrimPrefix(n, "/"); !strings.Contains(n, "/") {
			return n
		}
	}
	return ""
}

// Inspect returns one container, or container.ErrNotFound.
func (e *Engine) Inspect(ctx context.Context, id string) (container.Container, error) {
	c, err := e.client(ctx)
	if err != nil {
		return container.Container{}, err
	}
	found, err := c.InspectContainerWithOptions(client.InspectContainerOptions{ID: id, Context: ctx})
	var none *client.NoSuchContainer
	var status *client.Error
	switch {
	case errors.As(err, &none), errors.As(err, &status) && status.Status == http.StatusNotFound:
		return container.Container{}, container.ErrNotFound
	case err != nil:
		return container.Container{}, e.explain(ctx, err)
	}
	return translate(found), nil
}

// translate makes the tracker's container out of Docker's.
func translate(f *client.Container) container.Container {
	s := f.State
	c := container.Container{
		ID:    f.ID,
		Name:  strings.TrimPrefix(f.Name, "/"),
		Image: f.Image,
		State: s.Status,
		// A container that waits for its next restart is Running to Docker,
		// but has no process.
		Running:   s.Running && !s.Restarting && s.Pid > 0,
		StartedAt: s.StartedAt, FinishedAt: s.FinishedAt,
		ExitCode: s.ExitCode,
		Reason:   s.Error,
	}
	if s.OOMKilled && !c.Running {
		c.Reason = "OOMKilled"
	}
	if c.Running {
		c.Pid = s.Pid
		c.Addresses = addresses(f.NetworkSettings)
	}
	if f.Config != nil {
		c.Env, c.Labels, c.Image = f.Config.Env, f.Config.Labels, f.Config.Image
	}
	if f.HostConfig != nil {
		c.HostNetwork = f.HostConfig.NetworkMode == "host"
		c.Joins, _ = strings.CutPrefix(f.HostConfig.NetworkMode, "container:")
		if c.Joins == f.HostConfig.NetworkMode {
			c.Joins = ""
		}
	}
	return c
}

// addresses are those that Docker gave a container, sorted.
func addresses(n *client.NetworkSettings) []string {
	if n == nil {
		return nil
	}
	var all []string
	add := func(address string, length int) {
		if address != "" {
			all = append(all, fmt.Sprintf("%s/%d", address, length))
		}
	}
	for _, net := range n.Networks {
		add(net.IPAddress, net.IPPrefixLen)
		add(net.GlobalIPv6Address, net.GlobalIPv6PrefixLen)
	}
	slices.Sort(all)
	return all
}
