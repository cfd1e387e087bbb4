// Package announce tells the neighbours of links when an address has another MAC, so that they
// do not send to the old one for as long as they remember it.
//
//	an address is created          announced before the operation ends
//	a link is set up or moved      its addresses, those of the other end of its cable, and
//	                               those of its bridge that are new or have another MAC
//	the MAC of a link changes      all addresses of the link, by whomever it was changed
//	the link has no carrier yet    announced as soon as it carries
//
// Each announcement is repeated twice, since one may be lost, or its neighbour not be connected
// yet. Before a repetition the kernel is asked whether the address is still there: it may have
// moved to another host or link. A start announces nothing: what it finds was announced when it
// was made.
//
// Nothing fails because of an announcement.
package announce
