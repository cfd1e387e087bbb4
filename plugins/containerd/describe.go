package containerd

import (
	"encoding/json"
	"net/netip"
	"slices"

	"github.com/containerd/containerd/api/services/containers/v1"

	"github.com/plumb-net/plumb/plugins/container"
)

// What CRI, the part of containerd that Kubernetes speaks to, writes on its
// containers. The labels of the kubelet's name the pod as well, but only the
// annotations are there whoever calls CRI.
const (
	criKind        = "io.kubernetes.cri.container-type" // sandbox or container
	criSandbox     = "io.kubernetes.cri.sandbox-id"
	criPod         = "io.kubernetes.cri.sandbox-name"
	criPodSpace    = "io.kubernetes.cri.sandbox-namespace"
	criName        = "io.kubernetes.cri.container-name"
	criSandboxData = "io.cri-containerd.sandbox.metadata" // an extension
	nerdctlName    = "nerdctl/name"
)

// spec is what is read of a container's OCI runtime specification.
type spec struct {
	Process struct {
		Env []string `json:"env"`
	} `json:"process"`
	Annotations map[string]string `json:"annotations"`
	Linux       *struct {
		Namespaces []struct {
			Type string `json:"type"`
			Path string `json:"path"`
		} `json:"namespaces"`
	} `json:"linux"`
}

func specOf(c *containers.Container) spec {
	var s spec
	if err := json.Unmarshal(c.GetSpec().GetValue(), &s); err != nil {
		return spec{} // not of Linux, or of a runtime of its own kind
	}
	return s
}

// hostNetwork reports whether no network namespace is asked for.
func (s spec) hostNetwork() bool {
	if s.Linux == nil {
		return false
	}
	for _, ns := range s.Linux.Namespaces {
		if ns.Type == "network" {
			return false
		}
	}
	return true
}

// name of a container: nerdctl's and CRI's own, or else the id, which elsewhere
// is a name.
func name(c *containers.Container) string { return nameBy(c, specOf(c)) }

func nameBy(c *containers.Container, s spec) string {
	pod := s.Annotations[criPodSpace] + "/" + s.Annotations[criPod]
	switch {
	case c.Labels[nerdctlName] != "":
		return c.Labels[nerdctlName]
	case s.Annotations[criKind] == "sandbox" && s.Annotations[criPod] != "":
		return pod
	case s.Annotations[criKind] == "container" && s.Annotations[criName] != "":
		return pod + "/" + s.Annotations[criName]
	}
	return c.ID
}

// describe makes the tracker's container out of containerd's record of it,
// which knows nothing of processes.
func describe(c *containers.Container) container.Container {
	s := specOf(c)
	d := container.Container{
		Name: nameBy(c, s), Image: c.Image, Labels: c.Labels,
		CreatedAt:   timeOf(c.CreatedAt),
		Env:         s.Process.Env,
		HostNetwork: s.hostNetwork(),
		Addresses:   addresses(c),
	}
	switch {
	case s.Annotations[criKind] == "container":
		d.Joins = s.Annotations[criSandbox]
	case c.Sandbox != c.ID:
		d.Joins = c.Sandbox
	}
	return d
}

// addresses are those that CRI notes on a sandbox, sorted, each as a network of
// one: the size of their networks it does not note.
func addresses(c *containers.Container) []string {
	var data struct {
		Metadata struct {
			IP            string
			AdditionalIPs []string
		}
	}
	if json.Unmarshal(c.GetExtensions()[criSandboxData].GetValue(), &data) != nil {
		return nil
	}
	var all []string
	for _, text := range append(data.Metadata.AdditionalIPs, data.Metadata.IP) {
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, netip.PrefixFrom(a, a.BitLen()).String())
		}
	}
	slices.Sort(all)
	return all
}
