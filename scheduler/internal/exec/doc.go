// Package exec runs operations outside of the loop that decides about them: on a bounded
// number of workers, in named lanes, in batches, with deadlines. It knows nothing of what
// an operation is about.
package exec
