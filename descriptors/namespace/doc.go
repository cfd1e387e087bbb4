// Package namespace is the observed kind of the namespaces that values name by pid,
// path or pod. The kernel tells nobody when one comes, so those that some value needs
// are looked at once a second; their end is known at once by the kernel's events.
package namespace
