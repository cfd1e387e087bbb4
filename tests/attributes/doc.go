// Package attributes plays every field of every kind on a kernel, with a real agent: set,
// changed, unset, found again by a restart, changed by somebody else, deleted beside things
// of others. The fields are those of the models; one that nobody plays fails.
//
// TestDrift begins at the other side: somebody changes each attribute that the kernel shows of
// some objects, and what the agent repairs of it is recorded.
package attributes
