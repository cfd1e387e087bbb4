// Package explain puts into words what package assess says of keys: statuses with reasons
// and missing needs, the chain of causes below a key, and the roots where it ends.
package explain
