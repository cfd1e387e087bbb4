// Package forward is the kind of what lets packets of an interface pass the firewalls of
// others.
//
// Docker has the policy of FORWARD drop what is passed on, and where bridges call iptables
// that is also what goes from one port of a bridge to another. A value is two rules, one for
// each direction, in every firewall that there is: in the chain DOCKER-USER, which Docker
// keeps for others, else in FORWARD. They bear our mark as their comment; only those that do
// are ever removed. When a firewall comes, or is made anew, they are made there too.
//
//	desired      the two rules, and where in a chain they belong
//	descriptor   the kind
//	rules        made and removed
//	retrieve     read, by the ledger and by the marks
//	watch        somebody has changed a firewall
package forward
