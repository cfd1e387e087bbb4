// Package pidfd holds processes and notices their end. What is said of a process that
// is held is said of that one and not of a later process with the same id.
package pidfd
