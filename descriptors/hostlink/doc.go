// Package hostlink is the observed kind of links that others made: all of the
// agent's own namespace (hostlink/<name>) and, in other namespaces, those that
// some value needs (hostlink/<selector>:<name>).
//
// Links that bear our mark are left out: they are interfaces, and showing them
// twice would double the work for every one of them.
package hostlink
