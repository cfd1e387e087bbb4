// Package route is the kind of routes.
//
// The kernel knows a route by namespace, family, table, destination and
// metric. Ours carry the agent's protocol number, but a number is no proof:
// anybody may use it. So every route of ours is in the ledger, written ahead
// and in one piece for a batch; what is not there is foreign.
//
// A change that keeps the identity replaces the route in one step, without a
// moment in which there is none.
package route
