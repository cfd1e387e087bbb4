// Package kv has the words that all rooms of the scheduler share: what is said of keys,
// how they stand, and how operations fail. It is plain data; package scheduler, which
// embedders use, has the same names.
package kv
