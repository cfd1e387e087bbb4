package cni

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/scheduler"
)

// Source is the name under which attachments are wanted of the scheduler.
const Source = "cni"

// Engine is what the service asks of the scheduler.
type Engine interface {
	Submit(t scheduler.Txn) *scheduler.Handle
	Apply(ctx context.Context, t scheduler.Txn) (scheduler.Result, error)
	Get(ctx context.Context, k scheduler.Key) (scheduler.Status, error)
	List(ctx context.Context, prefixes ...scheduler.Key) ([]scheduler.Status, error)
	Watch(prefixes ...scheduler.Key) *scheduler.Watcher
	Preview(ctx context.Context, t scheduler.Txn) (scheduler.Plan, error)
	WaitForKinds(ctx context.Context, names ...string) error
}

// Service does what runtimes ask: an ADD is a wish of its own source, and is
// answered when all of it is configured.
type Service struct {
	engine Engine
	store  *Store
	host   Host
	log    *slog.Logger
	queue  KeyedQueue
	events follower

	mu   sync.Mutex
	nets map[string]*shared // networks with attachments, by name
	lost map[Key]bool       // whose namespace had gone at the last sweep
	// pending are the ADDs that wait.
	pending map[Key]Pending
}

// shared is what the attachments of a network want together.
type shared struct {
	network.Network
	users map[Key]user
}

// user is what one attachment has of a network, by itself or with others.
type user struct {
	keys  map[string]bool
	ports []network.Port
	// inode of the container's namespace, and the default routes that it has there.
	inode    uint64
	defaults []network.DefaultRoute
	// settings of the container's namespace, by their place below /proc/sys.
	settings map[string]setting
}

// NewService makes a service. It wants nothing before [Service.Restore].
func NewService(engine Engine, store *Store, host Host, log *slog.Logger) *Service {
	return &Service{engine: engine, store: store, host: host, log: log, nets: map[string]*shared{}, pending: map[Key]Pending{}}
}

// Restore wants what the store says is attached, and nothing else: it is the complete
// word of the source, and comes before calls are served. What a crash left half made or
// half removed is thereby removed, and what is attached to a namespace that is another
// by now, at the word of its owner; [Service.Run] notes when it is gone. What is not in the store at all stays
// for as long as the engine waits for a source that has not spoken, see [Forgotten].
func (s *Service) Restore() {
	txn := scheduler.Txn{Source: Source, Note: "loaded CNI attachments", Complete: true, ByOwner: true}
	var ended []Attachment
	var inodes []uint64
	whole := true
	for _, a := range inOrder(s.store.Of("")) {
		c := Call{Request: wire.Request{Protocol: wire.Version, Config: a.Config,
			Args: spec.Args{Command: "ADD", ContainerID: a.Key.ContainerID, IfName: a.Key.IfName, Netns: a.Netns, Args: a.Args}}}
		c.Inode = a.Inode
		c, wrong := Parse(c.Request)
		c.pools, c.IPAM, c.restored, c.recorded, c.without = decodePools(a.Pools), a.IPAM, true, a.Wants, a.NoDefault
		if _, stranger := s.there(a); a.Phase != Added || stranger {
			s.log.Info("an attachment of before is removed", "attachment", a.Key.String(), "phase", a.Phase, "stranger", stranger)
			ended = append(ended, a)
			continue
		}
		if a.Pod != "" {
			continue // the operator's values want it
		}
		var wants []network.Want
		if wrong == nil {
			wants, wrong = s.join(&c)
		}
		if wrong != nil {
			s.log.Warn("the record of an attachment cannot be used", "attachment", a.Key.String(), "error", wrong)
			s.store.doubt(a)
			whole = false
			continue
		}
		txn.Want = append(txn.Want, changes(wants)...)
		inodes = append(inodes, a.Inode)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, inode := range inodes {
		txn.Want = append(txn.Want, changes(s.inherit(inode))...)
	}
	if s.host.Lost() == "" { // else a record may be older than what is there
		txn.Want = append(txn.Want, takenBack(ended, txn.Want, whole)...)
	}
	s.engine.Submit(txn)
}

// takenBack withdraws by name what attachments that have ended wanted and no other wants. What
// they shared may serve attachments of which the records cannot be used.
func takenBack(ended []Attachment, wanted []scheduler.Change, whole bool) (all []scheduler.Change) {
	done := map[scheduler.Key]bool{}
	for _, c := range wanted {
		done[c.Key] = true
	}
	for _, a := range ended {
		for _, k := range keysIn(a.Wants) {
			if _, own, _ := network.AttachmentOf(nameOf(k)); !done[k] && (own != "" || whole) {
				done[k] = true
				all = append(all, scheduler.Withdraw(k))
			}
		}
	}
	return all
}

// Run follows the states of what is waited for, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	news := s.engine.Watch(models.KindInterface+"/", models.KindIPClaim+"/", models.KindRoute+"/",
		models.KindNftables+"/", models.KindSysctl+"/", models.KindNamespace+"/", models.KindForward+"/")
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { s.finish(ctx) })
	beside.Go(func() {
		_ = s.host.Watch(ctx, func(ids ...string) { // it ends with ctx
			for _, id := range ids {
				s.events.tell(containerKey(id))
			}
			if len(ids) == 0 {
				s.events.tell()
			}
		})
	})
	return s.events.run(ctx, news)
}

// Serve does what is asked.
func (s *Service) Serve(ctx context.Context, c Call) wire.Answer {
	switch c.Command {
	case "STATUS":
		return s.status(ctx, c)
	case "GC":
		return s.gc(ctx, c)
	}
	ctx, leave, err := s.queue.Enter(ctx, c.Key(), c.Command == "DEL")
	if err != nil {
		return wire.Answer{Error: gaveUp(err)}
	}
	defer leave()
	switch c.Command {
	case "ADD":
		return s.add(ctx, c)
	case "DEL":
		if a, there := s.store.Get(c.Key()); there && c.Queued != 0 && a.Since > c.Queued {
			return wire.Answer{} // it was attached again since
		}
		return s.del(ctx, c)
	}
	return s.check(ctx, c)
}

// gaveUp makes an error of a call that could not be served now.
func gaveUp(err error) *spec.Error {
	msg := "it could not be done"
	switch {
	case errors.Is(err, ErrGone):
		return &spec.Error{Code: spec.BadNamespace, Msg: ErrGone.Error(), Details: err.Error()}
	case errors.Is(err, ErrDeleted):
		msg = ErrDeleted.Error()
	case errors.Is(err, context.DeadlineExceeded):
		msg = "timed out"
	}
	return &spec.Error{Code: spec.TryLater, Msg: msg, Details: err.Error()}
}
