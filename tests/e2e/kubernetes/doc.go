// Package kubernetes holds the tests of an agent that reads pods from a real API server. The tests play the
// scheduler and the kubelet: they create pods on a node, and call plumb-cni for their sandboxes.
package kubernetes
