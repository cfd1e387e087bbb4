// Package nodes is the source of intent that reads NodeIntents from the API server of Kubernetes: configuration of hosts,
// for all nodes that a selector selects.
//
//	API server ──mirror──► stores ──objects──► rollout ──values──► Txn
//	     ▲                                       │  ▲
//	     └──── turns, states, counts ────────────┘  └── keys that are configured, probes
//
//	object.go   the fields of NodeIntents, NodeIntentStates and of the node that are kept
//	rollout.go  one NodeIntent on this node: waits for its turn, is applied, kept or reverted: a pure state machine
//	wants.go    the values of all NodeIntents of the node: a pure function
//	source.go   runs the parts
//	calls.go    requests to the API server, and probes
//	state.go    the NodeIntentState that the agent writes
//	count.go    the counts of nodes in the status of a NodeIntent
//	health.go   the health of the source
//	saved.go    the copy on disk
//
// Agents agree on turns without a controller: the status of a NodeIntent lists the nodes that apply it, and an agent
// adds its node only with the resource version that it has seen. It adds none while the list has maxUnavailable nodes.
// A node leaves it when all values are configured; a node where they fail stays, so that a wrong change stops there.
package nodes
