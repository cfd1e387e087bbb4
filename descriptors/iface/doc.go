// Package iface is the kind of network interfaces.
//
// Everything is born where it will live, under its final name, with its final
// settings; nothing is ever moved between namespaces. The life of a link:
//
//	        ledger          kernel                  after a crash here
//	1       entry           –                       nothing there: forgotten
//	2       entry           link in our group       ours: ledger, name and group agree
//	3       entry           link with our alias     ours, even without the ledger
//	gone    entry           –                       forgotten
//	end     –               –
//
// A name alone is never enough to take a link for ours.
//
// The two ends of a veth are two keys and one object. Both pend until both can
// be; then the end with the smaller key makes the pair in place and the other
// finds its end made, and finishes it. Whoever finds the pair missing makes it.
//
// The types loopback and existing adopt a link that somebody else made: only
// what the value names is changed, what it was before is kept in the ledger,
// and given back at the end.
//
// What a type has of its own is in one file, or what some have that are alike:
//
//	alone       dummy, ifb, vrf, tap, tun
//	below       vlan, macvlan, ipvlan: on a parent
//	veth        both ends
//	bridge      and in port how it treats its ports, with their VLANs
//	bond        and how a link joins it, which other masters take as it is
//	tunnel      gre, gretap, ipip, sit, geneve
//	vxlan
//	wireguard   with its peers and the files of its keys
//	adopt       existing, loopback
//
// What links of all types have, and takes more than a patch, is in altnames and offloads.
// enslave finds the addresses and routes that a link loses when it joins a master, for the notes of plans.
//
// testdata/attributes has the life of each.
package iface
