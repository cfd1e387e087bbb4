package api

import (
	"context"
	"iter"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/plugins/resources"
	"github.com/plumb-net/plumb/scheduler"
)

// Scheduler is what the server needs of [scheduler.Scheduler]; see [Engine].
type Scheduler interface {
	Apply(ctx context.Context, t scheduler.Txn) (scheduler.Result, error)
	WhatIf(ctx context.Context, events ...scheduler.Event) (scheduler.Plan, error)
	Expect(t scheduler.Txn) Expected
	Get(ctx context.Context, k scheduler.Key) (scheduler.Status, error)
	List(ctx context.Context, prefixes ...scheduler.Key) ([]scheduler.Status, error)
	Statuses(ctx context.Context, prefixes ...scheduler.Key) iter.Seq2[scheduler.Status, error]
	Inspect(ctx context.Context, prefixes ...scheduler.Key) ([]scheduler.Status, error)
	Edges(ctx context.Context) ([]scheduler.Edge, error)
	Watch(prefixes ...scheduler.Key) Watcher
	Why(ctx context.Context, k scheduler.Key) (scheduler.Cause, error)
	History(q scheduler.HistoryQuery) []scheduler.Record
	At(ctx context.Context, t time.Time, prefixes ...scheduler.Key) ([]scheduler.Status, error)
	Changes(ctx context.Context, from, to time.Time, prefixes ...scheduler.Key) ([]scheduler.KeyChange, error)
	Blame(ctx context.Context, k scheduler.Key) (scheduler.Blame, error)
	Kinds() []scheduler.KindInfo
	Pause(target scheduler.Key, reason string, until time.Time) error
	Resume(target scheduler.Key) error
	HeldBack() ([]scheduler.HeldBack, error)
	Release(id string) error
	TakeBack(keys ...scheduler.Key) (end func(), err error)
	Sources(ctx context.Context) ([]scheduler.SourceState, error)
}

// Watcher is what the server needs of [scheduler.Watcher].
type Watcher interface {
	Next(ctx context.Context) (changes []scheduler.Status, inSync bool, err error)
	Stop()
}

// Expected is what the server needs of a [scheduler.Handle] of a transaction
// that the source of the store will submit.
type Expected interface {
	Wait(ctx context.Context) (scheduler.Result, error)
	Forget() (came bool)
}

// Engine makes a Scheduler of the real one.
func Engine(s *scheduler.Scheduler) Scheduler { return engine{s} }

type engine struct{ *scheduler.Scheduler }

func (e engine) Watch(prefixes ...scheduler.Key) Watcher { return e.Scheduler.Watch(prefixes...) }

func (e engine) Expect(t scheduler.Txn) Expected { return e.Scheduler.Expect(t) }

// Store is the agent's etcd below /plumb/<label>/. Keys are named without that
// prefix: "config/interface/web".
type Store interface {
	// Get reads a key; ok reports whether it is there.
	Get(ctx context.Context, key string) (kv models.Stored, ok bool, err error)
	// List reads all keys with the prefix, sorted.
	List(ctx context.Context, prefix string) ([]models.Stored, error)
	// Write changes keys in one transaction and returns its revision.
	Write(ctx context.Context, writes []models.Write) (revision int64, err error)
	// Author is who made a revision; ok is false for one that was not made through the agent.
	Author(ctx context.Context, revision int64) (a models.Author, ok bool, err error)
	// Elsewhere names the other labels below which the key is, named as in Get.
	Elsewhere(ctx context.Context, key string) (labels []string, err error)
	// Converged is up to which revision the intent was carried out as far as it can be.
	Converged() int64
	// Verify compares what was read of the store with what it holds; what differs is read
	// anew before it returns.
	Verify(ctx context.Context) (models.StoreCheck, error)
	// Revision is the one that the store stands at.
	Revision(ctx context.Context) (int64, error)
	// Reached blocks until the intent of the revision was handed to the scheduler.
	Reached(ctx context.Context, revision int64) error
}

// Freeze is why nothing is done to the network.
type Freeze struct {
	By      string    `json:"by,omitempty"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until,omitzero"` // zero: until somebody ends it
	// Shadow: the agent was started so that it does nothing, and nobody can end it.
	Shadow bool `json:"-"`
}

// Freezer holds everything, also over a restart of the agent.
type Freezer interface {
	Freeze(f Freeze) error
	// Unfreeze ends it; nil is returned if there is none.
	Unfreeze() (*Freeze, error)
	// Frozen is why nothing is done; nil if it is not so.
	Frozen() *Freeze
}

// Containers is what the container tracker knows. An error says why there may
// be more; a nil value is one that is surely gone.
type Containers interface {
	Containers() (map[string]*models.Container, error)
	Microservices() (map[string]*models.Microservice, error)
	Health() []models.Health
}

// Resources is what containers and other cgroups use.
type Resources interface {
	Latest() []resources.Latest
	// Machine is of the machine and its other cgroups, and how many are left out.
	Machine() (all []resources.Latest, leftOut int)
	Detail(key string) (resources.Detail, bool)
}

// CNI is what the service of CNI knows.
type CNI interface {
	Attachments() []cni.Attachment
	Pending() []cni.Pending
	// Cuts say of networks which of their packets the host's firewall stops.
	Cuts() map[string]string
	// Left are the calls that wait for the agent, and those that cannot be read.
	Left() (left, bad []wire.Left, err error)
	// Forgotten are the attachments without a record. Adopt makes one again of what an
	// operator names, Forget removes it.
	Forgotten(ctx context.Context) ([]cni.Forgotten, error)
	Adopt(ctx context.Context, id string) (cni.Attachment, error)
	Forget(ctx context.Context, id string) (f cni.Forgotten, left string, err error)
}
