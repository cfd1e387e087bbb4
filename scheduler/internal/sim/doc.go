// Package sim is evidence that the scheduler converges whatever happens: stories and random
// histories on a World of package schedulertest, with an oracle beside them.
//
// # The language
//
// Everything that can happen is a [Step], which is text: a command, and lines
// that belong to it. The stories in testdata of the scheduler are written in
// it, random histories are made of it, and a failing history is printed in it:
//
//	setup
//	sources strong weak
//	a derives=d
//	o observed
//	----
//
//	txn strong
//	a/1 v1 needs=o/1 derives=p1
//	----
//
//	fault
//	create a/1: fail twice
//	events o/: lost once
//	----
//
// A [Player] plays steps on a World and a scheduler, and keeps a [Model] beside
// them: an oracle that shares no code with the engine. [Player.Heal] ends all
// faults and compares.
//
// # The evidence
//
// [Generate] makes random histories, from a seed or from the bytes of a fuzzer.
// [Shrink] makes a failing one small. [Small] yields all small graphs, for
// trying every fault at every place. A [Tally] counts what really happened, so
// that a run can show that nothing was left out.
//
// Histories must be played inside a bubble of testing/synctest, where hours
// cost nothing; with GOMAXPROCS(1) the same steps play the same way each time.
package sim
