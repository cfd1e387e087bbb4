// Package iptables implements the port to firewalls that others have made by iptables: by
// Docker, by ufw, by hand. There may be two in a namespace and family, one in the tables of
// nftables and one in the tables that were before them; either may stop a packet. They are
// read and changed by the programs of iptables, whose rules nobody else reads right.
//
//	parse      what iptables -S lists, read back
//	iptables   the programs, run in a namespace
package iptables
