// Package kind is what kinds have in common besides owning things: how a descriptor
// begins ([Of]), what differs between two values ([Differences]), one object made by what
// makes many, and typed doors to the kinds that others stand on, interfaces and claims.
//
// Who needs one of these says so by the door and finds it by the door; the composition
// root fills it with what the registration of the other kind returns. So kinds do not
// import each other, and none reads what another remembers of its objects as any.
package kind
