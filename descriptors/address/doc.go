// Package address is the kind of interface addresses: those that an interface
// derives from its list (address/<interface>/<cidr or claim:x>) and those that
// operators write one by one (address/<name>).
//
// Whose an address is depends on its link:
//
//	links we made            the declared addresses are the whole truth: every
//	                         other one is drift, but for what the kernel made
//	existing, loopback,      only what the ledger names is ours; the rest is
//	link_only                foreign: it satisfies needs and is never touched
//
// So the hot path, an address on a link of ours, needs no ledger: the mark of
// the link covers it. On the other links one entry is written ahead, and one for
// every address that an operator wrote by itself or that a claim holds, or a restart
// would not tell whose it is.
//
// Deleting a primary IPv4 address makes the kernel drop the secondary ones of
// its network, whoever made them. They are put back.
package address
