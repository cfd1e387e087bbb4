// Package spec is what the Container Network Interface says on paper: versions,
// the environment and the configuration of a call, results and errors. It knows
// neither agent nor kernel, and imports the standard library only, since it is
// part of a program that must start at once.
package spec
