package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/confirm"
	"github.com/plumb-net/plumb/plugins/events"
	"github.com/plumb-net/plumb/plugins/loglevel"
)

// Config is what a server works with. Scheduler and Store are needed; without
// one of the others what it is for is answered as unavailable.
type Config struct {
	Scheduler Scheduler
	Store     Store
	// StoreSource is the scheduler's name of the source that brings what is
	// in the store. Default "etcd".
	StoreSource string
	// Decode reads values that are to be written to the store, and refuses those that
	// its source would refuse. Default models.Decode.
	Decode func(key string, text []byte) (proto.Message, error)
	// Place tells where a source that is not the store keeps a key (the path
	// of a file), for messages. It may be nil or return "".
	Place func(source, key string) string
	// Confirms takes back changes that nobody confirms.
	Confirms *confirm.Confirmer
	// Enslaving names the objects of others that stop working when the links of interfaces join their
	// masters. value returns the desired value of an interface, nil if there is none. Nil: plans
	// have no such notes.
	Enslaving func(ctx context.Context, keys []string, value func(key string) *models.Interface) []string
	// Surveyor finds what others made; nil: it cannot be looked for.
	Surveyor Surveyor
	// Freezer holds everything.
	Freezer Freezer
	// Containers is nil when no runtime is configured.
	Containers Containers
	// Resources is what containers use; nil: it is not sampled.
	Resources Resources
	// CNI is what runtimes have attached.
	CNI CNI
	// Events are what happened to containers and the agent.
	Events *events.Log
	// Health tells how the parts of the agent are.
	Health func() []models.Health
	// Synced blocks until the agent has heard of all that is wanted, and of all that is
	// there as far as it can be told. Default: it is so.
	Synced func(ctx context.Context) error
	// Accept believes a store that was replaced.
	Accept func(ctx context.Context) error
	// Metrics serves /metrics.
	Metrics http.Handler
	// Pages serves /ui/ and what is below.
	Pages http.Handler
	// Recent serves /log: the last lines of the log.
	Recent http.Handler
	// Levels are how much the parts of the agent log. Default: nobody can tell.
	Levels *loglevel.Levels

	// Label, Version, Commit and Started tell who answers.
	Label, Version, Commit string
	Started                time.Time

	// BodyTime is for how long a request may take to come whole, and an answer to be
	// taken; streams may take longer. Default 30 s.
	BodyTime time.Duration
	// Log gets what operators should know. Default: nothing is logged.
	Log *slog.Logger
	// Now is the clock. Default: the real one.
	Now func() time.Time
}

func (c Config) withDefaults() (Config, error) {
	if c.Scheduler == nil || c.Store == nil {
		return c, errors.New("api: a scheduler and a store are needed")
	}
	if c.StoreSource == "" {
		c.StoreSource = "etcd"
	}
	if c.Synced == nil {
		c.Synced = func(context.Context) error { return nil }
	}
	if c.Decode == nil {
		c.Decode = models.Decode
	}
	if c.Place == nil {
		c.Place = func(string, string) string { return "" }
	}
	if c.Health == nil {
		c.Health = func() []models.Health { return nil }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Levels == nil {
		c.Levels = loglevel.New()
	}
	if c.BodyTime == 0 {
		c.BodyTime = bodyTime
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}
