// Package wire is what plumb-cni and the agent say to each other on a unix socket.
//
//	agent   hello   which versions of the protocol it speaks
//	plugin  request in one of them: the environment and the configuration of the call
//	agent   answer  a result, or an error
//
// Each is one line of JSON; unknown fields are ignored, so that a plugin of one
// release works with an agent of the next. The agent speaks first: a socket at which
// nobody says hello belongs to an agent that is down. There is one call per
// connection, and who closes it early has given it up.
package wire
