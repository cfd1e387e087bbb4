// Package nexthop is the kind of nexthops, which routes refer to by number.
//
// The kernel knows a nexthop by its number within a namespace. Ours carry the agent's
// protocol number, as routes do, and are in the ledger; what is not there is another's and
// stays. One that takes the place of another keeps the routes and groups that refer to it.
//
// A group works as long as one of its members is there: it is made of those that are, and
// waits for the others. The kernel takes a member out of it when that goes.
package nexthop
