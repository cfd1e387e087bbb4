// Package cni is the agent's side of the Container Network Interface: the socket at
// which plumb-cni asks, the order of what is asked, and the durable list of what is
// attached.
//
//	Server      the socket: who may ask, what was said, for how long
//	KeyedQueue  calls about one attachment one after another; a DEL ends a waiting ADD
//	Store       attachments, written ahead: (network, container, interface), and how far
//	            each is (attachment.go)
//	Replay      what was left by plumb-cni while the agent was down
//	Service     what runtimes ask: an ADD (add.go) is what its network's pool makes of it,
//	            or what operators want in the pod (intent.go); it is answered when all of
//	            that is configured. Who waits for anything does so in wait.go
//	Host        what the service must know of the machine: namespaces, who runs
//	Sweep       attachments that serve nobody go by themselves
//
// What an ADD wants is made by the pure package network: what the attachments of a network
// share, and the addresses, cable, routes, settings and ports of one. What was made is told
// by result.go, with what plugins before have made (chain.go).
//
// In mode intent an ADD wants nothing of its own: the namespace of the pod is shown
// to the kinds (pods.go), and what operators want in it is waited for (intent.go,
// podindex.go).
package cni
