package schedulertest

import "github.com/plumb-net/plumb/scheduler"

// laws is the contract, clause by clause: first what is said of values, then
// what is done to the system.
func laws[V, M any]() []law[V, M] {
	type (
		D = scheduler.Descriptor[V, M]
		S = Spec[V, M]
		X = *trial[V, M]
	)
	makes := func(d D) bool { return d.Create != nil }
	reads := func(d D) bool { return d.Retrieve != nil }
	both := func(d D) bool { return makes(d) && reads(d) }
	watches := func(d D) bool { return d.Watch != nil }
	canRemove := func(s S) string { return lack(s.Remove != nil, "Remove") }
	canBeForeign := func(s S) string { return lack(s.Foreign != nil, "Foreign") }
	return []law[V, M]{
		{name: "registers", try: X.registers,
			right: "Register takes the descriptor"},
		{name: "pure", try: X.pure,
			right: "pure functions give the same for the same, also for copies, and do not change their arguments"},
		{name: "validate", try: X.validate, concerns: func(d D) bool { return d.Validate != nil },
			right: "Validate lets the samples pass, and refuses with an InvalidError that says what is wrong"},
		{name: "secrets", try: X.secrets, concerns: func(d D) bool { return d.Secrets != nil },
			right: "what is shown has none of the secrets left, also when it is encoded"},
		{name: "compare", try: X.comparable,
			right: "a value is the same as itself, Equal and Compare agree, a change has a reason, and InPlace needs Update"},
		{name: "needs", try: X.needs, concerns: func(d D) bool { return d.Needs != nil },
			right: "a need names one key, or one prefix that ends in a slash, and says what for; it is not the value's own key"},
		{name: "derive", try: X.derive, concerns: func(d D) bool { return d.Derive != nil },
			right: "derived keys are distinct, belong to a known kind and have values"},
		{name: "codec", try: X.codec, concerns: func(d D) bool { return d.Encode != nil && d.Decode != nil },
			right: "Decode gives back what Encode took, and equal values have equal bytes"},

		{name: "create-retrieve", try: X.createRetrieve, concerns: reads,
			right: "what was created is found, ours, and the same as what was asked"},
		{name: "create-twice", try: X.createTwice, concerns: makes,
			right: "finding the object made already, equal and ours, is success"},
		{name: "delete", try: X.deletes, concerns: both,
			right: "what was deleted is gone"},
		{name: "delete-absent", try: X.deleteAbsent, concerns: makes,
			right: "deleting what is not there is success, also without metadata"},
		{name: "no-op", try: X.noOp, concerns: both,
			right: "values are the same if and only if changing one into the other changes nothing"},
		{name: "update", try: X.updates, concerns: both,
			right: "a value changed into another leaves what making that other anew would leave"},
		{name: "update-absent", try: X.updateAbsent, concerns: func(d D) bool { return d.Update != nil && reads(d) },
			right: "an update that succeeds has left the object as asked, also when it was gone"},
		{name: "metadata", try: X.metadata, concerns: both,
			right: "Create, Update and Retrieve give the same metadata for the same object, so that nothing is rebuilt for it"},
		{name: "scope", try: X.scopes, concerns: reads,
			right: "Retrieve yields each object in the scope once, nothing else, and the same by key as among all"},
		{name: "lost", try: X.lost, concerns: makes, lacks: canRemove,
			right: "what somebody else removed is not found, deleting it is success, and it can be made again"},
		{name: "restart", try: X.restart, concerns: both, lacks: func(s S) string { return lack(s.Restart != nil, "Restart") },
			right: "after a restart what was made is found as ours, with and without hints, and the metadata found will do to delete it"},
		{name: "foreign", try: X.foreign, concerns: makes, lacks: canBeForeign,
			right: "somebody else's object in the way is a Conflict that names the owner; it is not taken, not shown as ours, not deleted"},
		{name: "batch", try: X.batch, concerns: func(d D) bool { return d.CreateBatch != nil || d.DeleteBatch != nil },
			right: "a batch does what its entries would do one by one"},
		{name: "batch-results", try: X.batchResults, concerns: func(d D) bool { return d.CreateBatch != nil }, lacks: canBeForeign,
			right: "each entry of a batch has a result of its own: one that fails does not harm the others"},
		{name: "cancelled", try: X.cancelled,
			right: "an operation whose context has ended returns soon, does not blame the value, has done what it says it did, and can be tried again"},
		{name: "stalled", try: X.stalled, lacks: func(s S) string { return lack(s.Stall != nil, "Stall") },
			right: "an operation on a system that hangs returns soon after its context ends"},
		{name: "watch", try: X.watch, concerns: watches, lacks: canRemove,
			right: "what happens after Watch was called is notified, by its key or as all, and keys of the kind only"},
		{name: "read-only", try: X.readOnly, concerns: func(d D) bool { return watches(d) && reads(d) }, lacks: canRemove,
			right: "a reading that is read-only finds what any other does, and what it saw is notified all the same"},
		{name: "watch-ends", try: X.watchEnds, concerns: watches,
			right: "Watch runs until its context ends, and then returns soon"},
		{name: "goroutines", try: X.goroutines,
			right: "no operation leaves a goroutine behind, nor does Watch when it has ended"},
	}
}

// lack names what the spec must have for a law to be tried.
func lack(has bool, what string) string {
	if has {
		return ""
	}
	return what
}
