// Package announce announces addresses to the neighbours of links (gratuitous ARP and unsolicited
// neighbour advertisements), so that they do not use an outdated MAC until their cache expires.
//
//	an address is created          it is announced before the operation ends
//	a link is set up or moved      its addresses are announced, those of its veth peer, and
//	                               those of its bridge that are new or have another MAC
//	the MAC of a link changes      all addresses of the link are announced, also after a
//	                               change by another process
//	the link has no carrier yet    its addresses are announced when it gets a carrier
//
// Each announcement is repeated twice, since a frame may be lost or a neighbour may not be
// connected yet. Before a repetition the announcer checks that the address still exists, since it
// may have moved to another host or link. The start of the agent announces nothing: existing
// addresses were announced when they were created.
//
// A failed announcement never fails an operation.
package announce
