//go:build versions

// Package apiserver is the list of the modules that the API server of the tests is built from. They are in
// a module of their own, so that they are no modules of Plumb's.
package apiserver

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
