// Package network says what a network of containers is and which values an attachment to
// it wants. It is pure: it reads a configuration and makes values; it does no I/O and
// knows no scheduler.
//
//	New       a Network of a configuration: its pools, its bridge (bridge.go), what is
//	          masqueraded (masquerade.go); what its attachments want together
//	Attach    what one Endpoint wants: addresses, a cable, settings (wants.go), routes
//	          (ways.go; routed.go in mode routed), ports of the host (ports.go)
//	RuntimeOf what a runtime asks for besides, also by CNI_ARGS (args.go)
//	names     how the values of networks and attachments are called (names.go)
//
// Where another plugin gives the addresses, it has been called before (delegated.go).
package network
