// Package models knows everything about values that can be known offline:
// the kinds and their keys, how a value is read from JSON and written back,
// which values are valid, and the documentation of every field.
//
// A value goes through here once, on its way in:
//
//	key ──► SplitKey ──► kind ─┐
//	                           ▼
//	JSON ──► parse ──► tree ──► shape ──► protobuf ──► Validate ──► message
//	          │                  │                        │
//	          ▼                  ▼                        ▼
//	     line:column      unknown fields,           ranges, addresses,
//	                      wrong types, paths        what excludes what
//
// Everything that is wrong comes back as one [InvalidError], which names the
// fields and says what would be right.
package models
