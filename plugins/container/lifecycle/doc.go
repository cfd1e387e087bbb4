// Package lifecycle says how far the runs of one container are. It is pure: who hears
// something of a container calls the method for it, and what others are told of it is
// decided elsewhere.
//
// The methods lead from state to state like this; "-" is what changes nothing, since
// runtimes say things twice, late and out of order:
//
//	         Begin    Pause   Resume   End     RecordExit  Amend
//	never    running  -       -        -       -           -
//	running  running  paused  -        ending  ended       -
//	paused   running  -       running  ending  ended       -
//	ending   running  -       -        -       ended       -
//	ended    running  -       -        -       -           ended
//
// A container that is ending is known to be over, by its process, and nobody has said
// yet how it ended.
package lifecycle
