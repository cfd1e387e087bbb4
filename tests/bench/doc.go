// Package bench measures what users of the agent get, from a write in etcd to
// the kernel, beside plain programs that make the same calls and nothing else.
//
//	go test ./tests/bench -run '^$' -bench . -benchtime 5x
//
// The agent is a process of its own, as users run it: the test binary starts
// itself again. It serves a network namespace that the benchmark made, so that
// nothing on the host is touched. The plain program works in another one,
// which the agent does not watch, turn and turn about with the agent.
//
// PLUMB_BENCH_PROFILE=<file> writes a CPU profile of the agent.
package bench
