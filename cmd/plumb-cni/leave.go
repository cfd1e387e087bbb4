package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
)

// leave does a DEL without the agent: the interface goes now, if it can be reached;
// the rest is left for the agent to do when it starts. Containers must be
// removable while the agent is down.
func (s system) leave(r wire.Request, socket string, why error) *spec.Error {
	fmt.Fprintf(s.stderr, "plumb-cni: %v; the agent will complete the DEL when it can\n", why)
	r.Queued = time.Now().Unix()
	err := wire.Leave(filepath.Dir(socket), r) // first: an agent that goes on must not repair what is removed
	if r.Netns != "" {
		if err := s.namespaces.unlink(r.Netns, r.IfName); err != nil {
			fmt.Fprintf(s.stderr, "plumb-cni: remove %s: %v\n", r.IfName, err)
		}
	}
	if err != nil {
		return &spec.Error{Code: spec.TryLater, Msg: "plumb-agent does not answer, and the DEL cannot be left for it", Details: err.Error()}
	}
	return nil
}
