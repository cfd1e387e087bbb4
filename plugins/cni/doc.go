// Package cni is the agent's side of the Container Network Interface: the socket at
// which plumb-cni asks, the order of what is asked, and the durable list of what is
// attached.
//
//	Server   the socket: who may ask, what was said, for how long
//	Turns    calls about one attachment one after another; a DEL ends a waiting ADD
//	Store    attachments, written ahead: (network, container, interface)
//	Replay   what was left by plumb-cni while the agent was down
//	Service  an ADD as a wish of the source cni, answered when it is configured
//
// An ADD wants a pool, a bridge with the gateway's address, a cable from the container
// to the bridge, an address by a claim and a default route (wants.go, which is pure).
// That is all there is so far: no masquerading, no mode but bridge, no plugins of
// others, no GC.
package cni
