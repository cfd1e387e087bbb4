// Package fdb is the kind of forwarding entries of bridges and vxlans that are set by hand.
//
// The kernel knows an entry by the bridge or vxlan, the hardware address and the VLAN; of
// the all-zero one a vxlan has one for each address. It keeps no mark with it, not even a
// protocol number. So ours is what the ledger names and what is still as it says: in a
// vxlan with the same address, in a bridge static, at whatever port, since the bridge
// itself moves a static entry to where its station speaks. Of an entry without a VLAN the
// kernel makes one more in each VLAN of the port; these are not looked at.
package fdb
