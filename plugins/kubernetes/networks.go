package kubernetes

import "encoding/json"

// NetworksAnnotation holds the networks of a pod, as the Network Plumbing Working Group specifies it ("Kubernetes Network
// Custom Resource Definition De-facto Standard", version 1.3).
const NetworksAnnotation = "k8s.v1.cni.cncf.io/network-status"

// Network is one interface of a pod in the annotation [NetworksAnnotation].
type Network struct {
	// Name is the name of the CNI network.
	Name      string   `json:"name"`
	Interface string   `json:"interface,omitempty"`
	IPs       []string `json:"ips,omitempty"`
	MAC       string   `json:"mac,omitempty"`
	MTU       int      `json:"mtu,omitempty"`
	// Default reports whether the interface is that of the default network of the cluster.
	Default bool     `json:"default,omitempty"`
	Gateway []string `json:"gateway,omitempty"`
	// DNS is required, and may be empty.
	DNS struct{} `json:"dns"`
}

// networks returns the desired value of the annotation of a pod, or "" for none. Without the option it returns the present
// value.
func (s *Source) networks(p *Pod) string {
	if s.opts.Networks == nil {
		return p.Networks
	}
	list := s.opts.Networks(p.runtimeName())
	if len(list) == 0 {
		return ""
	}
	text, err := json.Marshal(list)
	if err != nil {
		return p.Networks
	}
	return string(text)
}
