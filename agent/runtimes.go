package agent

import (
	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/containerd"
	"github.com/plumb-net/plumb/plugins/cri"
	"github.com/plumb-net/plumb/plugins/docker"
)

// on and off are the values of switches. A runtime that is off is not used.
const on, off = "on", "off"

// runtimes are those whose containers are tracked. What two of them could show
// belongs to one: Docker's containers to Docker and not to the containerd that
// it stands on, those of an engine that has a runtime of its own not to CRI.
func (c *Config) runtimes() ([]container.Runtime, error) {
	var all []container.Runtime
	var dockers, known []string
	if c.Docker != off {
		engine, err := docker.New(c.Docker)
		if err != nil {
			return nil, err
		}
		all = append(all, engine)
		dockers, known = containerd.DockerNamespaces, append(known, "docker")
	}
	if c.Containerd != off {
		engine, err := containerd.New(containerd.Options{Socket: c.Containerd, Skip: dockers})
		if err != nil {
			return nil, err
		}
		all, known = append(all, engine), append(known, "containerd")
	}
	if c.CRI != off {
		engine, err := cri.New(cri.Options{Socket: c.CRI, Refuse: known})
		if err != nil {
			return nil, err
		}
		all = append(all, engine)
	}
	return all, nil
}
