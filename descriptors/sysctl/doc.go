// Package sysctl is the kind of the kernel's settings in a namespace.
//
// A setting is always there; what is made and deleted is that it has our value.
// So what is ours the ledger says, and it keeps what was there before us, which
// comes back when ours is withdrawn.
//
// The kernel writes some settings when others are written, such as those of each link with
// net.ipv4.ip_forward. writes.go has what follows from that.
//
// The kernel tells nobody of changes. The settings are read every ten seconds.
package sysctl
