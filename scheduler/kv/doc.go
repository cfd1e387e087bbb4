// Package kv has the types that all packages of the scheduler share: what is said of keys,
// their states, and how operations fail. It is plain data; package scheduler, which
// embedders use, has the same names.
package kv
