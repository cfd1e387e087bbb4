package api

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// Microservices implements the service.
func (s *Server) Microservices(context.Context, *apiv1.MicroservicesRequest) (*apiv1.MicroservicesResponse, error) {
	if s.Config.Containers == nil {
		return &apiv1.MicroservicesResponse{Unknown: noRuntimes}, nil
	}
	all, err := s.Config.Containers.Microservices()
	out := &apiv1.MicroservicesResponse{Runtimes: health(s.Config.Containers.Health()), Unknown: text(err)}
	for _, label := range slices.Sorted(maps.Keys(all)) {
		m := all[label]
		if m == nil {
			continue // surely gone
		}
		out.Microservices = append(out.Microservices, &apiv1.Microservice{
			Label: label, Runtime: m.Runtime, ContainerId: m.ContainerId, Name: m.Name, Image: m.Image,
			Pid: m.Pid, Netns: m.Netns, StartedAt: m.StartedAt, Conflicts: m.Conflicts, Refused: m.Refused,
		})
	}
	return out, nil
}

// Containers implements the service.
func (s *Server) Containers(_ context.Context, r *apiv1.ContainersRequest) (*apiv1.ContainersResponse, error) {
	if s.Config.Containers == nil {
		return &apiv1.ContainersResponse{Unknown: noRuntimes}, nil
	}
	all, err := s.Config.Containers.Containers()
	out := &apiv1.ContainersResponse{Runtimes: health(s.Config.Containers.Health()), Unknown: text(err)}
	names, refused := pick(all, r.Id)
	if refused != nil {
		return nil, refused
	}
	for _, name := range names {
		out.Containers = append(out.Containers, container(all[name]))
	}
	return out, nil
}

// pick returns the keys of the containers that an operator means, sorted: all of them, or
// the only one with an id, the beginning of one, or a name.
func pick(all map[string]*models.Container, id string) (keys []string, err error) {
	var begin []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch c := all[name]; {
		case c == nil: // surely gone
		case id == "" || named(c, name, id):
			keys = append(keys, name)
		case strings.HasPrefix(c.ContainerId, id):
			begin = append(begin, name)
		}
	}
	if len(keys) == 0 {
		keys = begin
	}
	switch n := len(keys); {
	case id == "":
	case n == 0:
		return nil, notFound("no container has the id or the name %q; see `agentctl containers`", id)
	case n > 1:
		return nil, refuse("%q fits %d containers, as %s and %s; name more of the id", id, n, all[keys[0]].ContainerId, all[keys[1]].ContainerId)
	}
	return keys, nil
}

const noRuntimes = "no container runtime is configured"

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// named reports whether an operator's word is the container's name, its full id
// or its key.
func named(c *models.Container, name, word string) bool {
	word = strings.TrimPrefix(word, models.KindContainer+"/")
	return word == c.Name || word == name || word == c.ContainerId
}

func container(c *models.Container) *apiv1.Container {
	out := &apiv1.Container{
		Runtime: c.Runtime, ContainerId: c.ContainerId, Name: c.Name, Image: c.Image, State: c.State,
		Pid: c.Pid, Netns: c.Netns, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt,
		Reason: c.Reason, Labels: c.Labels, Microservice: c.Microservice, Addresses: c.Addresses, Refused: c.Refused,
		CreatedAt: c.CreatedAt, Error: c.Error, NetworkOwner: c.NetworkOwner, NetworkMembers: c.NetworkMembers,
		LastAddresses: c.LastAddresses, LabelRefused: c.LabelRefused,
	}
	if c.FinishedAt != "" || c.State == "exited" || c.State == "dead" {
		out.ExitCode = &c.ExitCode
	}
	return out
}
