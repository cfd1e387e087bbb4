// Package cni is the agent's side of the Container Network Interface: the socket at
// which plumb-cni asks, the order of what is asked, and the durable list of what is
// attached.
//
//	Server   the socket: who may ask, what was said, for how long
//	Turns    calls about one attachment one after another; a DEL ends a waiting ADD
//	Store    attachments, written ahead: (network, container, interface)
//	Replay   what was left by plumb-cni while the agent was down
//
// What an ADD does to the network is not here yet.
package cni
