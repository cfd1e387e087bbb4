// Package install tests what people install: the Debian package, its scripts and the unit,
// under a systemd of their own on a copy of this machine's files. See machine.sh.
package install
