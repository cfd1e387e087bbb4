package container

import "strings"

// maxLabel is the longest service label, in bytes: longer ones make no name.
const maxLabel = 200

// serviceLabel finds the service label of a container: the environment goes
// before the container's own label. Empty ones do not count.
func serviceLabel(c Container, env, key string) string {
	for _, entry := range c.Env {
		if name, value, ok := strings.Cut(entry, "="); ok && name == env && value != "" {
			return clip(value)
		}
	}
	return clip(c.Labels[key])
}

func clip(label string) string {
	if len(label) > maxLabel {
		return ""
	}
	return label
}
