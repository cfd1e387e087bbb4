// Package cni is the agent's side of the Container Network Interface: the socket at
// which plumb-cni asks, the order of what is asked, and the durable list of what is
// attached.
//
//	Server   the socket: who may ask, what was said, for how long
//	Turns    calls about one attachment one after another; a DEL ends a waiting ADD
//	Store    attachments, written ahead: (network, container, interface)
//	Replay   what was left by plumb-cni while the agent was down
//	Service  what runtimes ask: an ADD (add.go) is what its network's pool makes of it, or
//	         what operators want in the pod (intent.go); it is answered when all of that
//	         is configured. Who waits for anything does so in wait.go
//	Host     what the service must know of the machine: namespaces, who runs
//	Sweep    attachments that serve nobody go by themselves
//
// What an ADD wants is made by pure functions: what the attachments of a network
// share (network.go, masquerade.go), the addresses of one (addresses.go), its cable, routes and settings
// (wants.go, and bridge.go or routed.go by the mode of the network). What was made
// is told by result.go.
//
// In mode intent an ADD wants nothing of its own: the namespace of the pod is shown
// to the kinds (pods.go), and what operators want in it is waited for (intent.go,
// podindex.go).
//
// Where another plugin gives the addresses, plumb-cni has called it, and the request
// says what it gave (delegated.go). Where plugins before have made something, that is
// passed on (chain.go).
//
// Ports of the host that lead to a container are a table of its own (ports.go).
package cni
