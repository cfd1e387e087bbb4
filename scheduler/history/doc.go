// Package history keeps what happened to keys: records of transactions with what was done
// because of them, and every change of what was wanted, what was there and how a key stood.
// It is bounded by count and bytes. The loop writes, anybody reads; it knows nothing of
// the graph.
package history
