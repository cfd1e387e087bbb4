// Package disk says how full file systems are: those of the machine, and the layer into
// which a container writes.
//
// Nobody counts what is in a directory, so a layer is walked: [Walk] takes one processor a
// hundredth of the time at most, follows no link, and ends after so many files.
package disk
