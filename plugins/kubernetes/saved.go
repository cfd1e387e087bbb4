package kubernetes

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumb-net/plumb/plugins/private"
)

// copyFormat is the first line of a copy. The second is the SHA-256 of what follows.
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

// writeCopy writes a copy.
func writeCopy(file string, saved savedPods) error {
	data, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	return private.WriteFile(file, fmt.Appendf(nil, "%s\n%x\n%s\n", copyFormat, sum, data))
}

// readCopy reads what writeCopy wrote; nothing if there is no file.
func readCopy(file string) (saved savedPods, err error) {
	data, err := private.ReadState(file)
	if errors.Is(err, fs.ErrNotExist) {
		return savedPods{}, nil
	}
	if err != nil {
		return savedPods{}, err
	}
	lines := bytes.SplitN(data, []byte("\n"), 4)
	if len(lines) != 4 || string(lines[0]) != copyFormat {
		return savedPods{}, fmt.Errorf("%s: is not of this format", file)
	}
	if sum := sha256.Sum256(lines[2]); hex.EncodeToString(sum[:]) != string(lines[1]) {
		return savedPods{}, fmt.Errorf("%s: is damaged", file)
	}
	if err := json.Unmarshal(lines[2], &saved); err != nil {
		return savedPods{}, fmt.Errorf("%s: %w", file, err)
	}
	return saved, nil
}
