// Package configurations compares what Plumb makes of complete configurations with what the
// plain tools of Linux make of them. The configurations are written in the style of the formats that
// people come from: nmstate, netplan, systemd-networkd, ifupdown2, nftables, tc and the
// networks of containers.
//
// Each file of testdata is one configuration, in the txtar format: a comment that names the style and the
// purpose, and the parts
//
//	given.sh     optional: what the machine has already, such as its network card
//	intent.yaml  the configuration as intent, in the network namespace with the name of the file
//	tools.sh     the same by ip, bridge, tc, nft and sysctl
//
// Names of interfaces and of keys are unique over all files, because one agent has all configurations
// at once.
package configurations
