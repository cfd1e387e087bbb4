package microservice

import (
	"context"

	"github.com/plumb-net/plumb/models"
)

// Source is what the descriptors ask of whoever tracks the containers.
type Source interface {
	// Microservices returns, by label, what is known for sure; a nil is
	// surely not there. The error says why others may be there as well;
	// without one the map is all there is.
	Microservices() (map[string]*models.Microservice, error)
	// Containers returns containers in the same way, by <runtime>:<id>.
	Containers() (map[string]*models.Container, error)
	// Synced reports whether everything was known once. Before that, what was
	// there when the agent started may not have been seen yet.
	Synced() bool
	// Watch calls f with keys whose values may have changed, without keys if
	// any may have, until ctx ends.
	Watch(ctx context.Context, f func(keys ...string)) error
}

// Usable reports whether anything can be configured in the container's namespace.
func Usable(v *models.Microservice) bool {
	return v.GetRefused() == "" && v.GetNetns() != 0
}

// UsableContainer is Usable for containers without a label.
func UsableContainer(v *models.Container) bool {
	return v.GetRefused() == "" && v.GetNetns() != 0
}
