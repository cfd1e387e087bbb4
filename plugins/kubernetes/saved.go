package kubernetes

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumb-net/plumb/plugins/kubernetes/mirror"
)

// copyFormat is the format of a copy.
const copyFormat = "plumb pods 1"

// savedPods holds the objects of the node and their newest versions. Copies of agents that did not know PodIntents have
// no PodIntents.
type savedPods struct {
	Version       string       `json:"version"`
	Pods          []*Pod       `json:"pods"`
	IntentVersion string       `json:"podintents_version,omitempty"`
	PodIntents    []*PodIntent `json:"podintents,omitempty"`
	// CRD is the UID of the CRD of the PodIntents.
	CRD types.UID `json:"podintents_crd,omitempty"`
}

// readCopy reads a copy; nothing if there is no file.
func readCopy(file string) (saved savedPods, err error) {
	if err := mirror.ReadCopy(file, copyFormat, &saved); err != nil {
		return savedPods{}, err
	}
	return saved, nil
}
