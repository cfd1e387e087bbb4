// Package embedded is an etcd server that only this agent and, through one
// unix socket, root can reach.
//
// It lives in a process of its own, made of the same program: etcd ends its
// process when its data is damaged, the disk is full or cannot be read, and
// its panics come from goroutines of its own, where nobody can recover them.
// The agent must outlive all that.
//
//	agent ── Launch ──► the same program, Main ──► etcd server ──► <dir>/member
//	  └────────────── <run-dir>/etcd.sock ◄───────────┘
//	etcdctl ──────────────────▲
//
// The process ends when the agent does, however that ends: its standard input
// is a pipe from the agent.
//
// It has no peer listener: a unix peer URL would bind an abstract socket that
// any user of the host can reach. It does not use etcd's own client listener
// either, but serves gRPC on a socket that it makes itself: so the socket has
// its mode before the first client, and stopping does not wait five seconds
// for clients that watch.
//
// What is left of damaged data is read by such a process too (salvage.go).
package embedded
