// Package dockertest gives tests a Docker Engine of their own: in a network
// namespace of its own, so that it leaves the host's bridges and rules alone,
// and with all its files in a temporary directory.
package dockertest
