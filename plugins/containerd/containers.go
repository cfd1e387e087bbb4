package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/containerd/containerd/api/services/containers/v1"
	"github.com/containerd/containerd/api/services/namespaces/v1"
	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"google.golang.org/grpc"

	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/container/socket"
)

// List returns the containers of all namespaces. Whether they run it does not
// say: containerd would ask all shims one after the other, and leave out the
// tasks of those that hang. So each container is left to Inspect, where one
// that hangs delays no other.
func (e *Engine) List(ctx context.Context) ([]container.Summary, error) {
	conn, err := e.socket.Conn()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	found, err := namespaces.NewNamespacesClient(conn).List(ctx, &namespaces.ListNamespacesRequest{})
	if err != nil {
		return nil, e.socket.Explain(ctx, err)
	}
	var all []container.Summary
	for _, ns := range found.Namespaces {
		if e.skip[ns.Name] {
			continue
		}
		if all, err = appendContainers(within(ctx, ns.Name), conn, ns.Name, all); err != nil {
			return nil, e.socket.Explain(ctx, fmt.Errorf("namespace %s: %w", ns.Name, err))
		}
	}
	e.lives.keepOnly(all, began)
	return all, nil
}

// appendContainers lists one namespace, container by container: all of them in
// one message could be more than a message may hold.
func appendContainers(ctx context.Context, conn *grpc.ClientConn, namespace string, all []container.Summary) ([]container.Summary, error) {
	stream, err := containers.NewContainersClient(conn).ListStream(ctx, &containers.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, container.Summary{ID: join(namespace, m.Container.ID), Name: name(m.Container), Running: true})
	}
}

// Inspect returns one container, or container.ErrNotFound.
func (e *Engine) Inspect(ctx context.Context, id string) (container.Container, error) {
	conn, err := e.socket.Conn()
	if err != nil {
		return container.Container{}, err
	}
	namespace, bare := split(id)
	inside := within(ctx, namespace)
	found, err := containers.NewContainersClient(conn).Get(inside, &containers.GetContainerRequest{ID: bare})
	switch {
	case socket.NotFound(err):
		return container.Container{}, container.ErrNotFound
	case err != nil:
		return container.Container{}, e.socket.Explain(ctx, err)
	}
	c := describe(found.Container)
	c.ID = id
	answer, err := tasks.NewTasksClient(conn).Get(inside, &tasks.GetRequest{ContainerID: bare})
	switch {
	case socket.NotFound(err):
		return e.withoutTask(c), nil
	case err != nil:
		return container.Container{}, e.socket.Explain(ctx, err)
	}
	return e.withTask(c, answer.Process)
}

// withTask adds what the task tells.
func (e *Engine) withTask(c container.Container, t *task.Process) (container.Container, error) {
	switch t.Status {
	case task.Status_CREATED:
		c.State = "created"
	case task.Status_RUNNING, task.Status_PAUSED, task.Status_PAUSING:
		c.State, c.Running, c.Pid = "running", true, int(t.Pid)
		if t.Status != task.Status_RUNNING {
			c.State = "paused"
		}
		l := e.lives.seen(c.ID, t.Pid)
		c.StartedAt = l.startedAt()
	case task.Status_STOPPED:
		e.lives.ended(c.ID, t.Pid, end{code: int(t.ExitStatus), at: timeOf(t.ExitedAt)})
		return e.withoutTask(c), nil
	default:
		return c, fmt.Errorf("containerd does not know the state of the task of %s", c.ID)
	}
	if !c.Running {
		c.Addresses = nil
	}
	return c, nil
}

// withoutTask tells the last life of a container that has no task, or one that
// has ended. One of which no life is remembered has not run since we listen;
// whether it did before, containerd does not know either.
func (e *Engine) withoutTask(c container.Container) container.Container {
	c.State, c.Addresses = "created", nil
	l, lived := e.lives.of(c.ID)
	if !lived {
		return c
	}
	c.State, c.StartedAt = "exited", l.startedAt()
	c.ExitCode, c.FinishedAt = l.end.code, l.end.at
	if !l.over {
		c.ExitCode = container.UnknownExit
	}
	return c
}
