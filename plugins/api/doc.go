// Package api serves the agent to operators on a unix socket, and over the
// network if that is asked: one service definition (apiv1/agent.proto), spoken
// as gRPC and as plain HTTP with JSON, and beside it /livez, /readyz, /metrics
// and /log.
//
//	agentctl ─┐                      ┌─► Scheduler   what is, what would be, why
//	curl ─────┼─► agent.sock ─► rpc ─┼─► Store       intent goes through it
//	gRPC ─────┘   mode 0600,      ▲  ├─► Containers  what the tracker knows
//	   │          root or the     │  └─► Health      how the parts are
//	   │          agent's user    │
//	   └────────► TLS ─► gate ────┘   who asks (plugins/access), and whether his
//	                                  role suffices (roles.go)
//
// Who asks at the socket is admin. Each call that takes more than a viewer leaves
// a line in the log (audit.go).
//
// Nothing here changes the host by itself. What operators want is written
// into the store, in one transaction; from there it comes back as intent, like
// everything else that is written there. So the store always tells the truth
// about what was asked, and whoever waits waits for the scheduler.
package api
