// Package kubetest runs a real kube-apiserver for tests, on loopback, with an etcd of its own. The server is
// built once from the modules that apiserver/go.mod pins, and is kept in the user's cache.
package kubetest
