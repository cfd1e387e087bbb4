// Package confirm takes changes of intent back that nobody confirms in time: what routers
// call commit-confirm. Who cuts himself off by a change cannot undo it; so the agent does.
//
//	Begin ──► record on disk ──► the store is written ──► Written
//	                                    │
//	     Confirm ──► record gone        │ deadline over, a probe failed, Abort,
//	                                    ▼ or a start after a crash past the deadline
//	                    reverting (on disk) ──► the values before, written into the store
//	                                    │             │
//	              the store is down: other values      └─► record gone
//	              count until it can be written
//
// There is one such change at a time. What somebody else has changed since is theirs and
// stays: a key is taken back only if the store still holds what the change wrote. Time is
// that of the machine's clock, since a deadline also holds over a restart.
package confirm
