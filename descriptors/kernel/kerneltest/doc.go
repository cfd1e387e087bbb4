// Package kerneltest is a kernel in memory: the port of package kernel, with the laws of
// Linux by which links, addresses and routes depend on each other, and no host under it. It
// is for tests of descriptors, for embedders, and for many agents on one machine.
//
//	Kernel  the port; it is made with [New] and needs neither root nor Linux
//	IP      does what a command of ip(8) or tc(8) says, by the port, so on any kernel
//	Text    what there is on any kernel, as the commands that make it
//
// The other ports of a host are [Kernel.Tables], [Kernel.Firewalls] and [Kernel.Proxies]. They keep
// what they are given and do nothing to packets; what others do to them is [Kernel.Iptables],
// [Kernel.Listen], [Kernel.KillProxies] and [Kernel.RemoveFile].
//
// What it knows is what testdata/laws tells, and testdata/debian of what not every kernel has; each
// of these stories is played on the kernel of the host, or on those of Debian, too, and has to come
// out the same. It differs from Linux where nobody has to wait: what Linux does a moment later (a
// namespace dies, a carrier comes) is done here when the call returns.
//
// What it has not answers ErrUnsupported: types of links that no kind makes, and rings, which links
// of software have on no kernel. It forwards no packets, so nobody answers either: a bond that looks
// by ARP takes its ports to carry, and no peer of WireGuard is ever heard.
package kerneltest
