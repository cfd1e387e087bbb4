package kubernetes

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/plumb-net/plumb/plugins/private"
)

// copyFormat is the first line of a copy. The second is the SHA-256 of what follows.
const copyFormat = "plumb pods 1"

type savedPods struct {
	Version string `json:"version"`
	Pods    []*Pod `json:"pods"`
}

// writeCopy writes the pods of the node and the newest version that was seen.
func writeCopy(file string, pods []*Pod, version string) error {
	data, err := json.Marshal(savedPods{Version: version, Pods: pods})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	return private.WriteFile(file, fmt.Appendf(nil, "%s\n%x\n%s\n", copyFormat, sum, data))
}

// readCopy reads what writeCopy wrote; nothing if there is no file.
func readCopy(file string) (pods []*Pod, version string, err error) {
	data, err := private.ReadState(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	lines := bytes.SplitN(data, []byte("\n"), 4)
	if len(lines) != 4 || string(lines[0]) != copyFormat {
		return nil, "", fmt.Errorf("%s: is not of this format", file)
	}
	if sum := sha256.Sum256(lines[2]); hex.EncodeToString(sum[:]) != string(lines[1]) {
		return nil, "", fmt.Errorf("%s: is damaged", file)
	}
	var saved savedPods
	if err := json.Unmarshal(lines[2], &saved); err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	return saved.Pods, saved.Version, nil
}
