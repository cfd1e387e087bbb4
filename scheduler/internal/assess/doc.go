// Package assess says of a node all that follows from what is wanted of it, what is there,
// what it needs and what is under way: what is due, what it waits for, whether it is
// settled, and the state that people are told. It changes nothing but for noting a panic of
// a descriptor, and the marks by which it goes over the graph.
//
//	               ┌─ due      what may begin now
//	node ─► Assess ┼─ blocker  else, what it waits for, with its node
//	               └─ leaving  whether it satisfies anybody
//
// The engine acts on it, waits follow the blockers, and package explain puts them into
// words: so none of them can say anything else than the others. A new condition is one case
// in assess.go and one value of Blocker.
package assess
