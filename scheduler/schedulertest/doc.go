// Package schedulertest is for everybody who embeds the scheduler: a kit that holds
// descriptors to their contract, and a system in memory with laws and faults to order.
//
// [Conform] holds a descriptor, of whatever system, to the contract of
// [scheduler.Descriptor], law by law. Who writes kinds needs no more than that.
//
// A [World] holds objects of a few kinds whose values are [Thing]s. It sees
// what each operation does, checks at every one of them what the scheduler
// promises, and can be told to fail, to lose things, to change them behind the
// scheduler's back: what is built on a scheduler is tried in it.
package schedulertest
