// Package selector finds the namespaces that values live in. Values name one by a
// selector (microservice, container, netns, pid, path, pod); the kernel by the inode
// of a namespace. From one to the other it goes in two steps:
//
//	selector ──Needs──► what must be in place    (pure; the scheduler waits for it)
//	selector ──Resolver.Resolve──► Place         (inside an operation, when it is)
//
// Both look at the same observed values, so what satisfied the need is what the
// operation works in; when it is replaced in between, the operation fails and
// is tried again with the new one.
//
//	text                  selectors as text, in keys and claims
//	ways                  what each way to name a namespace has of its own:
//	containers, file      by container; by pid, path or pod
//	resolver              how the namespace is found and opened
package selector
