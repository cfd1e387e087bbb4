// Package embedded is an etcd server that only this process and, through one
// unix socket, root can reach.
//
// It has no peer listener: a unix peer URL would bind an abstract socket that
// any user of the host can reach. It does not use etcd's own client listener
// either, but serves gRPC on a socket that it makes itself: so the socket has
// its mode before the first client, and stopping does not wait five seconds
// for clients that watch.
//
//	this process ── direct calls ──► etcd server ──► <dir>/member
//	etcdctl ── <run-dir>/etcd.sock ──────▲
package embedded
