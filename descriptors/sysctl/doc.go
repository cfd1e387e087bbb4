// Package sysctl is the kind of the kernel's settings in a namespace.
//
// A setting is always there; what is made and deleted is that it has our value.
// So what is ours the ledger says, and it keeps what was there before us, which
// comes back when ours is withdrawn.
//
// Some settings write others: the kernel copies net.ipv4.ip_forward to forwarding of each link.
// writes.go restores the desired values of such settings.
//
// The kernel tells nobody of changes. The settings are read every ten seconds.
package sysctl
