// Package apiv1 is the service definition of the agent: agent.proto, the code
// generated from it, and the JSON that both curl and agentctl see.
package apiv1

//go:generate protoc --go_out=. --go_opt=paths=source_relative --connect-go_out=. --connect-go_opt=paths=source_relative,simple agent.proto
