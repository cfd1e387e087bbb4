// Package rule is the kind of rules of policy routing.
//
// The kernel knows a rule by all that it says, its protocol too, so that any change is
// another rule. Ours carry the agent's protocol number, as routes do, and are in the ledger
// by what they say. One that somebody else made and that says the same is beside ours, does
// the same, and is his.
package rule
