// Package intent is the contract of the sources of intent: an etcd store, a directory of files, and those
// to come. docs/adding-a-source.md shows how one is written; package intenttest holds it to the contract.
//
//	origin ──read and follow──► values by key ──► Txn ──► scheduler
//
// An origin that cannot be read is unknown, not empty: its desired values stay until it can be read again.
package intent

import (
	"context"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Source is one source of intent. All methods but Run may be called from any goroutine, before Run too.
type Source interface {
	// Name returns the name of the source in its transactions. It is unique in an agent.
	Name() string
	// Run reads the origin, follows it, and submits transactions until ctx ends; then it returns nil. An
	// origin that cannot be reached or read is tried again, for as long as it takes. An error means
	// that the agent cannot go on.
	//
	// The first transaction with all that the origin wants is Complete; before it nothing that the
	// source wanted in an earlier run is deleted. A value that cannot be decoded makes only its own key
	// invalid. Changes are submitted in their order, and each at least once.
	Run(ctx context.Context) error
	// Health returns the state of the source and its reason: starting before its first complete transaction, down while the
	// origin cannot be read.
	Health() models.Health
	// Place returns where a key is written, as FILE:LINE, or "" if the source has no such places.
	Place(key string) string
}

// Submitter takes transactions, in order; the scheduler is one. The handle is nil if the transaction is
// carried out already.
type Submitter interface {
	Submit(scheduler.Txn) *scheduler.Handle
}
