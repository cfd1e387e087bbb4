// Package kind has descriptors without their types, the registry of all that are known, and
// the operations and reads that call them. Nothing else calls a descriptor.
package kind
