package kubernetes

import (
	"fmt"
	"slices"
)

// Known are the pods of the store as a text, with their UIDs, versions and annotations.
func (s *Source) Known() (all []string) {
	for _, p := range s.store.All() {
		all = append(all, fmt.Sprintf("%s %s %s %s", p.Path(), p.UID, p.Version, p.Intent))
	}
	slices.Sort(all)
	return all
}
