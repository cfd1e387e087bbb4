package docker

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	client "github.com/fsouza/go-dockerclient"

	"github.com/plumb-net/plumb/plugins/container"
)

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
		CreatedAt: f.Created, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt,
		ExitCode: s.ExitCode,
		Reason:   s.Error,
	}
	// Docker's flag means that some process of the run was killed for lack of
	// memory, and not that this ended it: it says nothing here.
	if c.Running {
		c.Pid = s.Pid
		if f.NetworkSettings != nil {
			c.Addresses = networkAddresses(f.NetworkSettings.Networks)
		}
	}
	code := ""
	if s.Status == "exited" { // as lists tell it
		code = strconv.Itoa(s.ExitCode)
	}
	c.Digest = digest(s.Status, code, c.Addresses)
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
