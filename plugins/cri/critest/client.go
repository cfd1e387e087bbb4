package critest

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Client does what a kubelet would do.
type Client struct {
	runtime runtime.RuntimeServiceClient
	conn    *grpc.ClientConn
	image   string
}

// Dial makes a client of the engine at a socket, which need not be there yet.
// Containers run the image, which the engine must have.
func Dial(socket, image string) (*Client, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &Client{runtime.NewRuntimeServiceClient(conn), conn, image}, nil
}

// Close ends the connection.
func (c *Client) Close() { _ = c.conn.Close() }

// Pod says what pod to run. The zero value will do.
type Pod struct {
	Name   string // default: web
	Labels map[string]string
	// HostNetwork gives it the network namespace of the engine.
	HostNetwork bool
}

func (p Pod) config() *runtime.PodSandboxConfig {
	if p.Name == "" {
		p.Name = "web"
	}
	mode := runtime.NamespaceMode_POD
	if p.HostNetwork {
		mode = runtime.NamespaceMode_NODE
	}
	return &runtime.PodSandboxConfig{
		Metadata: &runtime.PodSandboxMetadata{Name: p.Name, Namespace: "default", Uid: "uid-" + p.Name},
		Labels:   p.Labels,
		Linux: &runtime.LinuxPodSandboxConfig{SecurityContext: &runtime.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtime.NamespaceOption{Network: mode},
		}},
	}
}

// Ready says what the engine lacks, nil if it can run pods.
func (c *Client) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	s, err := c.runtime.Status(ctx, &runtime.StatusRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	for _, condition := range s.Status.Conditions {
		if !condition.Status {
			err = errors.Join(err, errors.New(condition.Type+": "+condition.Message))
		}
	}
	return err
}

// RunPod starts the sandbox of a pod.
func (c *Client) RunPod(ctx context.Context, p Pod) (sandbox string, err error) {
	r, err := c.runtime.RunPodSandbox(ctx, &runtime.RunPodSandboxRequest{Config: p.config()})
	return r.GetPodSandboxId(), err
}

// RunContainer creates a container in a pod and starts it; without a command
// it does what the image says.
func (c *Client) RunContainer(ctx context.Context, sandbox string, p Pod, name string, env map[string]string, command ...string) (id string, err error) {
	config := &runtime.ContainerConfig{
		Metadata: &runtime.ContainerMetadata{Name: name},
		Image:    &runtime.ImageSpec{Image: c.image},
		Command:  command,
	}
	for k, v := range env {
		config.Envs = append(config.Envs, &runtime.KeyValue{Key: k, Value: []byte(v)})
	}
	made, err := c.runtime.CreateContainer(ctx, &runtime.CreateContainerRequest{
		PodSandboxId: sandbox, Config: config, SandboxConfig: p.config(),
	})
	if err != nil {
		return "", err
	}
	_, err = c.runtime.StartContainer(ctx, &runtime.StartContainerRequest{ContainerId: made.ContainerId})
	return made.ContainerId, err
}

// RemovePod stops and removes a pod with its containers.
func (c *Client) RemovePod(ctx context.Context, sandbox string) error {
	if _, err := c.runtime.StopPodSandbox(ctx, &runtime.StopPodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		return err
	}
	_, err := c.runtime.RemovePodSandbox(ctx, &runtime.RemovePodSandboxRequest{PodSandboxId: sandbox})
	return err
}

// Pods returns the ids of all sandboxes, of those that do not run as well.
func (c *Client) Pods(ctx context.Context) (ids []string, err error) {
	r, err := c.runtime.ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{})
	for _, found := range r.GetItems() {
		ids = append(ids, found.Id)
	}
	return ids, err
}

// Netns is the path of the network namespace of a sandbox, as containerd tells it.
func (c *Client) Netns(ctx context.Context, sandbox string) (string, error) {
	r, err := c.runtime.PodSandboxStatus(ctx, &runtime.PodSandboxStatusRequest{PodSandboxId: sandbox, Verbose: true})
	if err != nil {
		return "", err
	}
	var info struct {
		RuntimeSpec struct {
			Linux struct {
				Namespaces []struct{ Type, Path string }
			}
		}
	}
	if err := json.Unmarshal([]byte(r.Info["info"]), &info); err != nil {
		return "", err
	}
	for _, ns := range info.RuntimeSpec.Linux.Namespaces {
		if ns.Type == "network" {
			return ns.Path, nil
		}
	}
	return "", errors.New("the sandbox has no network namespace of its own")
}

// Running returns the ids of the containers that run, sandboxes not among them.
func (c *Client) Running(ctx context.Context) ([]string, error) {
	r, err := c.runtime.ListContainers(ctx, &runtime.ListContainersRequest{Filter: &runtime.ContainerFilter{
		State: &runtime.ContainerStateValue{State: runtime.ContainerState_CONTAINER_RUNNING},
	}})
	var ids []string
	for _, found := range r.GetContainers() {
		ids = append(ids, found.Id)
	}
	return ids, err
}
