// Package layout places boxes within boxes and leads lines between them. It is pure, and the
// same input gives the same drawing.
//
// The boxes of a container stand in rows, in the order in which they are given. Between the
// rows are channels, and a margin runs along either side:
//
//	┌ container ──────────────────┐
//	│      channel                │
//	│ m  ┌────┐  ┌──┐  ┌──────┐ m │
//	│ a  └────┘  │  │  └─┬────┘ a │
//	│ r          └──┘    │      r │
//	│ g    channel ──────┘      g │
//	│ i  ┌─┴───────┐ ┌──┐       i │
//	│ n  └─────────┘ └──┘       n │
//	│      channel                │
//	└─────────────────────────────┘
//
// A line leaves its box upwards or downwards into a channel, and gets from one channel to
// another, and out of a container, by a margin. No box stands in either, so a line crosses no
// box but those that its ends are in. Lines that share a piece of a channel or of a margin
// run side by side, up to as many as lanesMax.
//
// Who is added or removed moves those that come after it in its container, and the
// containers after that; the order of all others stays.
package layout
