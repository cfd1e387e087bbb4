// Package netlink implements the kernel port on a live Linux kernel.
//
// How it is built, from the bottom up:
//
//	message    builds and reads netlink messages
//	conn       one socket: a request, and the answers that belong to it
//	namespace  one open network namespace: its file, its counter
//	idle       the conns that nobody uses, over all namespaces
//	holder     a process or path by which a namespace was opened
//	hub        one loop over the event sockets of all namespaces
//	tables     of which namespaces the hub hears of changes to nftables
//	watcher    the events for one who watches
//	actor      who caused an event: which process had that socket
//	ownports   our own sockets are known by their numbers
//	process    processes, as /proc shows them
//	unused     who is closed for want of users, or not opened for want of files
//	Kernel     the port: links, addresses, routes, settings, namespaces, events
//
// Sockets belong to the namespace in which they were opened, so a call needs no
// change of thread; only opening a socket, a tap device, a setting or a named
// namespace does, and that happens on a thread which is put back or thrown away.
//
// Namespaces are opened, made, entered and left by vishvananda/netns; what has to
// hold around that (which file is one, whose it is, what becomes of threads and names
// when something fails) is ours.
//
// The package speaks netlink itself. A client library costs 7 µs per request
// here where the kernel needs 5 for an address; the benchmarks print both.
package netlink
