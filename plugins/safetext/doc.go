// Package safetext makes what others have written fit for people to read.
//
// Names, labels and reasons come from containers, intent and configurations. They
// may hold bytes that move the cursor of a terminal, hide what stands before them or
// turn round the order of letters: [Line], [Text] and [JSON] show such characters
// instead. They may hold what is to stay secret: [URLs], [Mask] and [MaskJSON] put
// *** in its place.
package safetext
