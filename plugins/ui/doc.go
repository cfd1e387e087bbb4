// Package ui serves the page: the network as it is and as it should be, what happened, and
// what a file would do.
//
//	browser ─► Server (agentctl ui: user, Host, Origin, token, session) ─┬─► Handler: assets, parse
//	agent's socket, or the network with its own authentication ─────────┘     │
//	     └─ calls of the API, by the page's own requests ◄─────────────────────┘
//
// The page is plain JavaScript in modules, below assets, and gets all that it shows by the
// API. It decides nothing: what is in order, why not, and where boxes stand is said by the
// agent. What may be done is what the role of who asks allows.
package ui
