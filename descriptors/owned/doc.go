// Package owned is the one way in which kinds own objects in the kernel. What the agent
// makes is in the ledger before it is there and bears a mark where it can, so that after
// a crash at any moment it is known what is ours. The order is always this, with a
// failpoint after each step that leaves something behind:
//
//	Objects.Create   begin ─► prepare ─► record ─► make ─► mark
//	Objects.Delete   begin ─► remove ─► forget
//
// begin keeps a reading that runs at the same time from forgetting an entry whose object
// is not there yet; see [kernel.Owner]. A kind gives what is its own: how an object is
// prepared, made and removed, and how one is read that the ledger names.
//
//	create     objects are made, many with one write to the ledger
//	delete     and removed
//	retrieve   what the ledger names is read
//	memory     what is believed to be there, to tell news from the echo of our own doing
//	watch      the kernel's events, and asking now and then where there are none
//	actors     who caused them
package owned
