package container

import (
	"fmt"
	"strings"
)

// maxLabel is the longest service label, in bytes: longer ones make no name.
const maxLabel = 200

// LabelsOff, in place of the name of a variable or a container label, says that no
// service label is read there.
const LabelsOff = "off"

// serviceLabel finds the service label of a container: the environment goes
// before the container's own label. Empty ones do not count. why says what keeps it
// from having one.
func serviceLabel(c Container, env, key string) (label, why string) {
	from := ""
	if key != LabelsOff {
		label, from = c.Labels[key], "label "+key
	}
	for _, entry := range c.Env {
		if name, value, ok := strings.Cut(entry, "="); ok && env != LabelsOff && name == env && value != "" {
			label, from = value, "variable "+env
			break
		}
	}
	if len(label) > maxLabel {
		return "", fmt.Sprintf("the service label in its %s has %d bytes, and may have %d: %.20q…", from, len(label), maxLabel, label)
	}
	return label, ""
}
