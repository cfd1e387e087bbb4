package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/container/socket"
)

// List returns all sandboxes and containers.
func (e *Engine) List(ctx context.Context) ([]container.Summary, error) {
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	pods, err := c.ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{})
	if err != nil {
		return nil, e.socket.Explain(ctx, err)
	}
	found, err := c.ListContainers(ctx, &runtime.ListContainersRequest{})
	if err != nil {
		return nil, e.socket.Explain(ctx, err)
	}
	var all []container.Summary
	names := map[string]string{}
	for _, p := range pods.Items {
		names[p.Id] = podName(p.Metadata)
		all = append(all, container.Summary{
			ID: p.Id, Name: names[p.Id], State: podState(p.State), Digest: podState(p.State),
			Running: p.State == runtime.PodSandboxState_SANDBOX_READY,
		})
	}
	for _, f := range found.Containers {
		all = append(all, container.Summary{
			ID: f.Id, Name: names[f.PodSandboxId] + "/" + f.GetMetadata().GetName(),
			State: states[f.State], Digest: states[f.State],
			// What the engine does not know is not said to be over.
			Running: f.State == runtime.ContainerState_CONTAINER_RUNNING || f.State == runtime.ContainerState_CONTAINER_UNKNOWN,
		})
	}
	e.lists.compare(all)
	return all, nil
}

// states are the tracker's words, which tell all that may change. Of the state
// that the engine does not know there is none, so that it is asked again.
var states = map[runtime.ContainerState]string{
	runtime.ContainerState_CONTAINER_CREATED: "created",
	runtime.ContainerState_CONTAINER_RUNNING: "running",
	runtime.ContainerState_CONTAINER_EXITED:  "exited",
}

func podState(s runtime.PodSandboxState) string {
	if s == runtime.PodSandboxState_SANDBOX_READY {
		return "running"
	}
	return "exited"
}

func podName(m *runtime.PodSandboxMetadata) string { return m.GetNamespace() + "/" + m.GetName() }

// Inspect returns one sandbox or container, or container.ErrNotFound.
func (e *Engine) Inspect(ctx context.Context, id string) (container.Container, error) {
	c, err := e.client()
	if err != nil {
		return container.Container{}, err
	}
	status, err := c.ContainerStatus(ctx, &runtime.ContainerStatusRequest{ContainerId: id, Verbose: true})
	switch {
	case socket.NotFound(err):
		return e.inspectPod(ctx, c, id)
	case err != nil:
		return container.Container{}, e.socket.Explain(ctx, err)
	}
	d, err := ofContainer(status)
	if err != nil {
		return d, err
	}
	pod, err := c.PodSandboxStatus(ctx, &runtime.PodSandboxStatusRequest{PodSandboxId: d.Joins})
	switch {
	case socket.NotFound(err): // on its way out
	case err != nil:
		return container.Container{}, e.socket.Explain(ctx, err)
	default:
		d.Name = podName(pod.Status.Metadata) + "/" + d.Name
		d.HostNetwork = ownsHost(pod.Status)
	}
	return d, nil
}

func (e *Engine) inspectPod(ctx context.Context, c runtime.RuntimeServiceClient, id string) (container.Container, error) {
	status, err := c.PodSandboxStatus(ctx, &runtime.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	switch {
	case socket.NotFound(err):
		return container.Container{}, container.ErrNotFound
	case err != nil:
		return container.Container{}, e.socket.Explain(ctx, err)
	}
	return ofPod(status)
}

// verbose is what is read of the verbose part of a status.
type verbose struct {
	Pid         int    `json:"pid"`
	SandboxID   string `json:"sandboxID"`
	RuntimeSpec struct {
		Process struct {
			Env []string `json:"env"`
		} `json:"process"`
	} `json:"runtimeSpec"`
}

func verboseOf(info map[string]string) (v verbose, err error) {
	if err := json.Unmarshal([]byte(info["info"]), &v); err != nil {
		return v, fmt.Errorf("the engine tells no details: %w", err)
	}
	return v, nil
}

// errNoPid: without it there is no way to the network namespace.
var errNoPid = errors.New("the engine does not tell the id of the process")

// errNoStatus: an engine that answers without a status says nothing.
var errNoStatus = errors.New("the engine tells no status")

func ofContainer(r *runtime.ContainerStatusResponse) (container.Container, error) {
	s := r.GetStatus()
	if s == nil {
		return container.Container{}, errNoStatus
	}
	d := container.Container{
		ID: s.Id, Name: s.GetMetadata().GetName(), Image: s.GetImage().GetImage(), Labels: s.Labels,
		CreatedAt: at(s.CreatedAt), StartedAt: at(s.StartedAt),
	}
	v, err := verboseOf(r.Info)
	if err != nil {
		return d, err
	}
	d.Joins, d.Env = v.SandboxID, v.RuntimeSpec.Process.Env
	d.State, d.Digest = states[s.State], states[s.State]
	switch s.State {
	case runtime.ContainerState_CONTAINER_CREATED:
	case runtime.ContainerState_CONTAINER_RUNNING:
		if d.Running, d.Pid = true, v.Pid; d.Pid == 0 {
			return d, errNoPid
		}
	case runtime.ContainerState_CONTAINER_EXITED:
		// That memory ran out (the reason OOMKilled) says engines of a run in which
		// any process was killed: not that this ended it.
		d.FinishedAt, d.ExitCode, d.Reason = at(s.FinishedAt), int(s.ExitCode), s.Message
	default:
		return d, errors.New("the engine does not know the state of the container")
	}
	return d, nil
}

func ofPod(r *runtime.PodSandboxStatusResponse) (container.Container, error) {
	s := r.GetStatus()
	if s == nil {
		return container.Container{}, errNoStatus
	}
	d := container.Container{
		ID: s.Id, Name: podName(s.Metadata), Labels: s.Labels,
		State: podState(s.State), Digest: podState(s.State),
		CreatedAt: at(s.CreatedAt), StartedAt: at(s.CreatedAt),
		HostNetwork: ownsHost(s),
	}
	if s.State != runtime.PodSandboxState_SANDBOX_READY {
		d.ExitCode = container.UnknownExit
		return d, nil
	}
	v, err := verboseOf(r.Info)
	if err != nil {
		return d, err
	}
	d.Addresses = addresses(s.Network)
	if d.Running, d.Pid = true, v.Pid; d.Pid == 0 {
		return d, errNoPid
	}
	return d, nil
}

func ownsHost(s *runtime.PodSandboxStatus) bool {
	return s.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtime.NamespaceMode_NODE
}

// addresses are those of a sandbox, sorted, each as a network of one: the size
// of their networks is not told.
func addresses(n *runtime.PodSandboxNetworkStatus) []string {
	texts := []string{n.GetIp()}
	for _, ip := range n.GetAdditionalIps() {
		texts = append(texts, ip.GetIp())
	}
	var all []string
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, netip.PrefixFrom(a, a.BitLen()).String())
		}
	}
	slices.Sort(all)
	return all
}
