// Package critest lets tests run pods on a container engine by way of CRI, the
// interface that Kubernetes speaks to engines.
package critest
