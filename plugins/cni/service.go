package cni

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/plumb-net/plumb/models"
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
}

// Service does what runtimes ask: an ADD is a wish of its own source, and is
// answered when all of it is configured.
type Service struct {
	engine Engine
	store  *Store
	host   Host
	log    *slog.Logger
	turns  Turns
	events follower
	pods   podNews

	mu   sync.Mutex
	nets map[string]*shared // networks with attachments, by name
	lost map[Key]bool       // whose namespace had gone at the last sweep
	// pending are the ADDs that wait.
	pending map[Key]Pending
}

// shared is what the attachments of a network want together.
type shared struct {
	network
	users map[Key]user
}

// user is what one attachment has of a network, by itself or with others.
type user struct {
	keys  map[string]bool
	ports []port
	// inode of the container's namespace, and the default routes that it has there.
	inode    uint64
	defaults []wayOut
}

// goes is for how long a DEL waits until what it withdrew is gone. What takes
// longer goes on by itself.
const goes = 10 * time.Second

// NewService makes a service. Its first word is complete: what the store says is
// attached is wanted, and nothing else. What a crash left half made or half
// removed is thereby removed, and what is attached to a namespace that is another
// by now; [Service.Run] notes when it is gone. What is not in the store at all stays
// for as long as the engine waits for a source that has not spoken, see [Forgotten].
func NewService(engine Engine, store *Store, host Host, log *slog.Logger) *Service {
	s := &Service{engine: engine, store: store, host: host, log: log, nets: map[string]*shared{}, pending: map[Key]Pending{}}
	txn := scheduler.Txn{Source: Source, Note: "loaded CNI attachments", Complete: true}
	for _, a := range inOrder(store.Of("")) {
		c := Call{Request: wire.Request{Protocol: wire.Version, Config: a.Config,
			Args: spec.Args{Command: "ADD", ContainerID: a.Key.ContainerID, IfName: a.Key.IfName, Netns: a.Netns, Args: a.Args}}}
		c.Inode = a.Inode
		c, wrong := Parse(c.Request)
		c.pools, c.IPAM, c.restored, c.without = decodePools(a.Pools), a.IPAM, true, a.NoDefault
		if _, stranger := s.there(a); a.Phase != Added || stranger {
			log.Info("an attachment of before is removed", "attachment", a.Key.String(), "phase", a.Phase, "stranger", stranger)
			continue
		}
		if a.Pod != "" {
			continue // the operator's values want it
		}
		var wants []Want
		if wrong == nil {
			wants, wrong = s.join(&c)
		}
		if wrong != nil {
			log.Warn("the record of an attachment cannot be used", "attachment", a.Key.String(), "error", wrong)
			store.doubt(a)
			continue
		}
		txn.Want = append(txn.Want, changes(meant(wants, c))...)
	}
	engine.Submit(txn)
	return s
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
	return s.events.run(ctx, s.pods.see, news)
}

// Serve does what is asked.
func (s *Service) Serve(ctx context.Context, c Call) wire.Answer {
	switch c.Command {
	case "STATUS":
		return s.status(ctx, c)
	case "GC":
		return s.gc(ctx, c)
	}
	ctx, leave, err := s.turns.Enter(ctx, c.Key(), c.Command == "DEL")
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
	return s.check(ctx, c.Key())
}

func (s *Service) add(ctx context.Context, c Call) wire.Answer {
	if wrong := s.refused(c); wrong != nil {
		return wire.Answer{Error: wrong}
	}
	if wrong := refusedArgs(c); wrong != nil {
		return wire.Answer{Error: wrong}
	}
	if a, there := s.store.Get(c.Key()); there {
		if here, _ := s.there(a); here && a.Phase == Added {
			return wire.Answer{Error: &spec.Error{Code: spec.Exists, Msg: "the container is attached already", Details: c.Key().String()}}
		}
		s.detach(ctx, c.Key()) // of a call that did not end well, or a DEL that never came
	} else if wrong := s.attached(ctx, c.Key()); wrong != nil {
		return wire.Answer{Error: wrong}
	}
	if c.Network.Mode == modeIntent {
		return s.addIntent(ctx, c)
	}
	return s.addByPool(ctx, c)
}

// addByPool answers an ADD when all is configured that the network's pool and mode
// make of it.
func (s *Service) addByPool(ctx context.Context, c Call) wire.Answer {
	if wrong := unmade(c); wrong != nil {
		return wire.Answer{Error: wrong}
	}
	c.pools = s.pools(ctx, c.Network)
	wrong := s.collidesNow(ctx, c)
	if wrong != nil {
		return wire.Answer{Error: wrong}
	}
	c.defaults, wrong = s.defaultsIn(c)
	if wrong != nil {
		return wire.Answer{Error: wrong}
	}
	wants, wrong := s.join(&c)
	if wrong != nil {
		return wire.Answer{Error: wrong}
	}
	wants = meant(wants, c)
	if wrong := s.incumbents(ctx, wants); wrong != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.leave(c.Key(), nil)
		return wire.Answer{Error: wrong}
	}
	err := s.store.Begin(Attachment{Key: c.Key(), Netns: c.Netns, Inode: c.Inode, Boot: s.host.Boot(), Config: c.Config, Args: c.Args.Args,
		Pools: encodePools(c.pools), IPAM: c.IPAM, NoDefault: c.without, Wants: keysOf(wants), Since: time.Now().Unix()})
	var result spec.Result
	if err == nil {
		s.engine.Submit(scheduler.Txn{Source: Source, Note: "ADD " + c.Key().String(), Want: changes(wants)})
		if err = s.await(ctx, c, wants); err == nil {
			err = s.carried(ctx, wants)
		}
		if err == nil {
			result, err = s.result(ctx, c, wants)
		}
	}
	if err == nil {
		err = s.store.Commit(c.Key(), result)
	}
	if err != nil {
		s.undo(ctx, c.Key())
		return wire.Answer{Error: gaveUp(err)}
	}
	return wire.Answer{Result: &result, Warnings: s.warnings(c)}
}

// join makes a call one of the users of its network, and returns all that it wants.
func (s *Service) join(c *Call) ([]Want, *spec.Error) {
	n, wrong := networkOf(c.Network, c.pools, c.IPAM)
	if wrong != nil {
		return nil, wrong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.restored {
		if c.without, wrong = s.leftOut(*c); wrong != nil {
			return nil, wrong
		}
	}
	wants, wrong := n.attach(*c)
	if wrong != nil {
		return nil, wrong
	}
	rt, _ := c.runtime() // attach has checked it
	if other := taken(s.nets, c.Key(), rt.Ports); other != "" {
		return nil, &spec.Error{Code: spec.TryLater, Msg: "a port of the host is taken", Details: other}
	}
	if wrong := s.heldByNetwork(c.Network.Name, n); wrong != nil && !c.restored {
		return nil, wrong
	}
	sh := s.nets[c.Network.Name]
	if sh == nil {
		sh = &shared{network: n, users: map[Key]user{}}
		s.nets[c.Network.Name] = sh
	}
	if !sh.same(n) {
		return nil, &spec.Error{Code: spec.BadConfig, Msg: "invalid network configuration",
			Details: fmt.Sprintf("%d attachments use %s with another mode, pool, bridge, mtu, masquerade or forward", len(sh.users), c.Network.Name)}
	}
	wants = append(n.shared[:len(n.shared):len(n.shared)], wants...)
	u := user{keys: map[string]bool{}, ports: rt.Ports, inode: c.Inode, defaults: defaultsOf(wants, n.inside(*c))}
	for _, w := range wants {
		u.keys[w.Key] = true
	}
	sh.users[c.Key()] = u
	return wants, nil
}

// await waits until all that is wanted is configured, one of it cannot be, or nobody
// needs it any more.
func (s *Service) await(ctx context.Context, c Call, wants []Want) error {
	var keys []scheduler.Key
	for _, w := range wants {
		keys = append(keys, scheduler.Key(w.Key))
	}
	keys = append(keys, derivedOf(wants)...)
	defer s.waitsFor(c.Key(), "")
	news, stop := s.events.follow(slices.Concat(keys, watched(c)))
	defer stop()
	for seen := false; ; {
		waits, err := s.waits(ctx, keys)
		if err == nil && waits == "" {
			return nil
		}
		if err == nil {
			err = s.exhausted(ctx, wants)
		}
		if gone := s.gone(c, &seen); gone != nil {
			return gone // whatever else is not as it should be
		}
		if err != nil {
			return err
		}
		s.waitsFor(c.Key(), waits)
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("%w, waiting for %s", context.Cause(ctx), waits)
		}
	}
}

// waits says what is not configured yet, "" if all is.
func (s *Service) waits(ctx context.Context, keys []scheduler.Key) (string, error) {
	waits := ""
	for _, k := range keys {
		st, err := s.engine.Get(ctx, k)
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case err != nil:
			return "", err
		case st.State == scheduler.InvalidState, st.State == scheduler.Failed, st.State == scheduler.Retrying:
			return "", fmt.Errorf("%s is %s: %s", k, st.State, st.Reason)
		case st.State != scheduler.Configured && waits == "":
			waits = fmt.Sprintf("%s, which is %s: %s", k, st.State, st.Reason) + s.unread(ctx, st)
		}
	}
	return waits, nil
}

// del removes an attachment. It is done when nobody wants it any more; what takes
// long to go is told. So is a record that cannot be written: then the call is left for
// the next start, which would else find the attachment in the store.
func (s *Service) del(ctx context.Context, c Call) (answer wire.Answer) {
	k := c.Key()
	if _, there := s.store.Get(k); !there {
		return s.delForgotten(ctx, k)
	}
	if err := s.store.Remove(k); err != nil {
		answer.Warnings = append(answer.Warnings, "it is removed, but that cannot be written to the state directory: "+err.Error())
		if c.Queued != 0 { // it was left already, and stays so
			answer.Error = gaveUp(err)
		} else if err := s.host.Leave(c.Request); err != nil {
			answer.Warnings = append(answer.Warnings, "nor can it be noted for the next start: "+err.Error())
		}
	}
	if left := s.detach(ctx, k); left != "" {
		answer.Warnings = append(answer.Warnings, "it is still being removed: "+left)
	}
	return answer
}

// undo removes what an ADD began. If nobody waits for the answer any more, as when
// the agent stops, it does not see to the end: the next sweep or start does.
func (s *Service) undo(ctx context.Context, k Key) {
	rest := goes
	if errors.Is(ctx.Err(), context.Canceled) {
		rest = time.Second
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rest)
	defer cancel()
	s.detach(ctx, k)
}

// detach withdraws what an attachment wants, and what its network wants if it was
// the last. It returns what is not gone yet.
func (s *Service) detach(ctx context.Context, k Key) (left string) {
	a, _ := s.store.Get(k)
	if a.Pod != "" {
		return s.leavePod(ctx, a)
	}
	sharing := s.sharing(ctx, k.Network)
	s.mu.Lock()
	keep := s.leave(k, a.Wants)
	var keys []scheduler.Key
	for _, key := range a.Wants {
		if _, own, _ := attachmentOf(nameOf(scheduler.Key(key))); !keep[key] && (own != "" || !sharing) {
			keys = append(keys, scheduler.Key(key))
		}
	}
	h := s.engine.Submit(withdrawal("DEL "+k.String(), keys))
	s.mu.Unlock()
	if left = gone(ctx, h); left == "" {
		s.store.Forget(k)
	}
	return left
}

// withdrawal takes back what is wanted, or was by an earlier run.
func withdrawal(note string, keys []scheduler.Key) scheduler.Txn {
	txn := scheduler.Txn{Source: Source, Note: note}
	for _, k := range keys {
		txn.Want = append(txn.Want, scheduler.Withdraw(k))
	}
	return txn
}

func (s *Service) withdraw(ctx context.Context, note string, keys []scheduler.Key) (left string) {
	return gone(ctx, s.engine.Submit(withdrawal(note, keys)))
}

// gone waits until what was withdrawn is gone, and returns what is not.
func gone(ctx context.Context, h *scheduler.Handle) (left string) {
	ctx, cancel := context.WithTimeout(ctx, goes)
	defer cancel()
	r, err := h.Wait(ctx)
	if err != nil {
		return err.Error()
	}
	for _, o := range r.Keys {
		if o.State != scheduler.Removed && o.State != scheduler.Absent {
			left = o.String()
		}
	}
	return left
}

// check reads what an attachment has made, and says what is not so any more.
func (s *Service) check(ctx context.Context, k Key) wire.Answer {
	a, there := s.store.Get(k)
	if !there || a.Phase != Added {
		details := k.String()
		if f, err := s.forgottenAt(ctx, k); err == nil && f != nil {
			details += " has no record; agentctl cni adopt " + k.ContainerID
		}
		return wire.Answer{Error: &spec.Error{Code: spec.Broken, Msg: "the container is not attached", Details: details}}
	}
	if here, _ := s.there(a); !here {
		return wire.Answer{Error: &spec.Error{Code: spec.Broken, Msg: "the network namespace of the container is gone, or another", Details: a.Netns}}
	}
	var look scheduler.Txn
	for _, key := range a.Wants {
		look.Look = append(look.Look, scheduler.Key(key))
	}
	if a.Pod != "" {
		wants, _ := s.wished(ctx, a.Pod)
		look.Look = scheduled(wants)
	}
	_, err := s.engine.Apply(ctx, look)
	waits := ""
	if err == nil {
		waits, err = s.waits(ctx, look.Look)
	}
	switch {
	case err != nil:
		return wire.Answer{Error: &spec.Error{Code: spec.Broken, Msg: "the attachment is not as it was made", Details: err.Error()}}
	case waits != "":
		return wire.Answer{Error: &spec.Error{Code: spec.Broken, Msg: "the attachment is not as it was made", Details: waits}}
	}
	return wire.Answer{}
}

func changes(wants []Want) []scheduler.Change {
	list := make([]scheduler.Change, len(wants))
	for i, w := range wants {
		list[i] = scheduler.Set(scheduler.Key(w.Key), w.Value)
	}
	return list
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
