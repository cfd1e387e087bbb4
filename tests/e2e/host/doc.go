// Package host gives tests a host of their own with an agent on it: everything
// is real, and nothing is shared with the machine that the test runs on.
//
//	own namespace   plays the host; a fresh one, or that of the engine
//	engine          a Docker Engine in a namespace of its own, one for all hosts
//	                of a test binary
//	agent           a process, from a binary built once per test binary
//	commands        agentctl, etcdctl, docker, and ip in any namespace
//
// A test binary that uses it has
//
//	func TestMain(m *testing.M) { os.Exit(host.Main(m)) }
//
// When a test ends its agent is stopped, `plumb-agent cleanup` must leave
// nothing of it, and its containers go. When it fails, the agent's log is shown.
package host
