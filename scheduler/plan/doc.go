// Package plan works out what would be done without doing it, says what a plan was made on,
// and executes a plan as it stands.
//
// A preview is the engine on the same graph, with a simulation as its outside: operations
// succeed at once and become steps, and all is taken back at the end.
package plan
