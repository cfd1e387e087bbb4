// Package docker makes a Docker Engine a runtime of the container tracker.
//
// Lists and inspects go through go-dockerclient. The stream of events is read
// here: the client's own listener delivers out of order, drops what a slow
// reader does not take, and gives up for good when the engine restarts.
package docker
