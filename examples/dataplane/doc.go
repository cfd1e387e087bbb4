// Command dataplane is an agent for a dataplane of its own, in the manner of a
// virtual switch: its kinds stand beside Plumb's Linux kinds under one
// scheduler. The dataplane is simulated by the package switchd; the taps are
// real, in a network namespace that is made for them. Run it as root:
//
//	go run ./examples/dataplane
//
// It tells a story and shows after each step what the agent says and what the
// dataplane was asked to do. The things and what they need:
//
//	dp/process/switchd     the dataplane itself               observed
//	interface/web          a tap, by Plumb's own kind
//	dp/port/web            a port on the tap                  needs interface/web and the process
//	dp/carrier/web         the port has a link                observed
//	dp/bridge/lan          joins ports                        needs its ports
//	dp/route/10.1.0.0/16   a network behind a port            needs bridge, port and its link
//
// # How to read it
//
//   - linux.go takes Plumb's kind of interfaces, without the rest of its agent.
//   - port.go is a kind with everything: metadata (the index that the dataplane
//     gives), ownership by a tag, batches, conflicts, events.
//   - bridge.go and route.go are short. They find the indexes of their ports by
//     the typed view that [scheduler.Register] returns, and name them in their
//     needs ([scheduler.Project]): a port with another index has them rebuilt.
//   - process.go is how a dataplane comes and goes. While there is no connection
//     it is unknown, not absent: nothing new is built on it, and nothing is torn
//     down. When it is back with the same boot number all is as it was. With
//     another one everything is read, found absent, and made again in order.
//   - agent.go puts it together, story.go tells the story, and the tests hold
//     every kind to the contract (schedulertest.Conform) and the story to
//     testdata/story.txt.
package main
