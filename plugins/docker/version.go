package docker

import (
	"fmt"

	client "github.com/fsouza/go-dockerclient"
)

// The versions of the API between which the calls made here did not change:
// those of Docker 1.12 and of the newest engine they were read in.
const (
	oldestAPI = "1.24"
	newestAPI = "1.51"
)

// choose finds the newest version that both sides know. least is "" in engines
// that do not say.
func choose(theirs, least string) (string, error) {
	their, err := client.NewAPIVersion(theirs)
	if err != nil {
		return "", fmt.Errorf("it names no version of its API: %w", err)
	}
	oldest, _ := client.NewAPIVersion(oldestAPI)
	newest, _ := client.NewAPIVersion(newestAPI)
	if their.LessThan(oldest) {
		return "", fmt.Errorf("its API is %s, at least %s is needed; upgrade Docker", theirs, oldestAPI)
	}
	if !newest.LessThan(their) {
		return theirs, nil
	}
	if low, err := client.NewAPIVersion(least); err == nil && newest.LessThan(low) {
		return least, nil // newer than all we know, yet likely still the same
	}
	return newestAPI, nil
}
