package cni

import (
	"encoding/json"
	"fmt"

	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// Key names an attachment. A pod of the same name has another container id, so a
// late DEL of the one before never means the one that runs.
type Key struct{ Network, ContainerID, IfName string }

func (k Key) String() string { return k.Network + "/" + k.ContainerID + "/" + k.IfName }

// id is how the keys of its values name it.
func (k Key) id() string { return network.ID(k.String()) }

// Phase is how far an attachment is. The methods of a [Store] lead from phase to phase
// like this; "-" is refused and changes nothing:
//
//	          Begin   Commit  Remove    Forget
//	none      adding  -       -         none
//	adding    -       added   removing  none
//	added     -       -       removing  none
//	removing  -       -       removing  none
type Phase string

// The phases. What a crash leaves in Adding or Removing is to be removed.
const (
	Adding   Phase = "adding"
	Added    Phase = "added"
	Removing Phase = "removing"
)

// Attachment is one interface of one container on one network.
type Attachment struct {
	Key   Key   `json:"key"`
	Phase Phase `json:"phase"`
	// Netns is where the container was, Inode which namespace that was.
	Netns string `json:"netns,omitempty"`
	Inode uint64 `json:"inode,omitempty"`
	// Boot is the boot in which that was.
	Boot string `json:"boot,omitempty"`
	// Pools are the ippools of operators that the network names, as they were: at the
	// next start it may be long until they are known again.
	Pools map[string]json.RawMessage `json:"pools,omitempty"`
	// Pod is the pod whose interfaces operators want, of an attachment that they make.
	Pod string `json:"pod,omitempty"`
	// IPAM is what another plugin has given.
	IPAM *spec.Result `json:"ipam,omitempty"`
	// NoDefault are the families, ip and ip6, in which the container had a default route
	// when it was attached, and got none by this network.
	NoDefault []string `json:"no_default,omitempty"`
	// Wants are the keys of what the attachment wants.
	Wants []string `json:"wants,omitempty"`
	// Config is what ADD was called with, for a CHECK or a DEL without.
	Config json.RawMessage `json:"config,omitempty"`
	Result *spec.Result    `json:"result,omitempty"`
	// Args are the CNI_ARGS of the ADD.
	Args string `json:"args,omitempty"`
	// Since is when the ADD began, in unix seconds.
	Since int64 `json:"since,omitempty"`
}

// begin is the attachment that is about to be made.
func (a Attachment) begin() Attachment {
	a.Phase, a.Result = Adding, nil
	return a
}

// commit notes what was made.
func (a *Attachment) commit(r spec.Result) error {
	if a.Phase != Adding {
		return fmt.Errorf("%s: %w: it is %s", a.Key, ErrNotAdding, a.Phase)
	}
	a.Phase, a.Result = Added, &r
	return nil
}

// remove notes that it is about to be removed.
func (a *Attachment) remove() { a.Phase = Removing }
