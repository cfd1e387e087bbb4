// Package intent is the contract of the sources of intent: an etcd store, a directory of files, and those
// to come. docs/adding-a-source.md shows how one is written; package intenttest holds it to the contract.
//
//	origin ──read and follow──► values by key ──► Txn ──► scheduler
//
// A source submits what its origin wants. What it cannot read is unknown, and never means that nothing is
// wanted: while the origin is away, all that it wanted stays.
package intent

import (
	"context"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Source is one source of intent. All methods but Run may be called from any goroutine, before Run too.
type Source interface {
	// Name is that of the source in its transactions. Two sources of an agent have different names.
	Name() string
	// Run reads the origin, follows it, and submits transactions until ctx ends; then it returns nil. An
	// origin that cannot be reached or read is tried again, for as long as it takes. An error means
	// that the agent cannot go on.
	//
	// The first transaction with all that the origin wants is Complete; before it nothing that the
	// source wanted in an earlier run is deleted. A value that cannot be decoded makes its own key invalid
	// and concerns no other. Changes are submitted in their order, and each at least once.
	Run(ctx context.Context) error
	// Health tells how the source is: starting before its first complete transaction, down while the
	// origin cannot be read, and why.
	Health() models.Health
	// Place is where a key is written, as FILE:LINE, or "" if the source has no such places.
	Place(key string) string
}

// Submitter takes transactions, in order; the scheduler is one. The handle is nil if the transaction is
// carried out already.
type Submitter interface {
	Submit(scheduler.Txn) *scheduler.Handle
}
