package cni

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/scheduler"
)

// addition is an ADD that has passed all checks. byPool and byIntent return one.
type addition struct {
	// record is written before any object is created. begin is then submitted: it requests the
	// objects, or a read of the pod's namespace.
	record Attachment
	begin  scheduler.Txn
	// progress returns the desired values, and what of them is not configured, or "". It is
	// called again when one of the keys has changed, and at limit unless that is zero.
	progress func(ctx context.Context) (wants []network.Want, waits string, err error)
	keys     []scheduler.Key
	limit    time.Time
}

func (s *Service) add(ctx context.Context, c Call) wire.Answer {
	if wrong := s.addable(ctx, c); wrong != nil {
		return wire.Answer{Error: wrong}
	}
	if c.Network.Mode == network.ModeIntent {
		if wrong := refusedIntent(c); wrong != nil {
			return wire.Answer{Error: wrong}
		}
		result, err := s.carryOut(ctx, c, s.byIntent(c))
		switch {
		case err == nil:
			return wire.Answer{Result: &result}
		case !errors.Is(err, errNoIntent) || ctx.Err() != nil || len(c.Network.Pool) == 0:
			return wire.Answer{Error: gaveUp(err)}
		}
	}
	wants, wrong := s.wantsOfPool(ctx, &c)
	if wrong != nil {
		return wire.Answer{Error: wrong}
	}
	result, err := s.carryOut(ctx, c, s.byPool("ADD", c, wants))
	if err != nil {
		return wire.Answer{Error: gaveUp(err)}
	}
	return wire.Answer{Result: &result, Warnings: s.warnings(c)}
}

// addable refuses an ADD if its namespace, configuration or arguments are invalid, if the
// attachment exists already, or during a freeze. It removes what an earlier attempt has left.
func (s *Service) addable(ctx context.Context, c Call) *spec.Error {
	if wrong := s.refused(c); wrong != nil {
		return wrong
	}
	if wrong := network.CheckKeys(c.Config); wrong != nil {
		return wrong
	}
	if wrong := spec.CheckArgs(c.Args.Args); wrong != nil {
		return wrong
	}
	a, there := s.store.Get(c.Key())
	if !there {
		if wrong := s.attached(ctx, c.Key()); wrong != nil {
			return wrong
		}
	}
	if here, _ := s.there(a); there && here && a.Phase == Added {
		return &spec.Error{Code: spec.Exists, Msg: "the container is attached already", Details: c.Key().String()}
	}
	if why := s.host.Frozen(); why != "" {
		return &spec.Error{Code: spec.TryLater, Msg: nothing, Details: why}
	}
	if !there {
		return nil
	}
	s.detach(ctx, c.Key()) // left by a call that failed, or whose DEL is missing
	return nil
}

// carryOut creates an attachment and returns its result once packets pass. On an error it removes
// what it has created.
func (s *Service) carryOut(ctx context.Context, c Call, a addition) (result spec.Result, err error) {
	var wants []network.Want
	if err = s.store.Begin(a.record); err == nil {
		s.engine.Submit(a.begin)
		wants, err = s.await(ctx, c, a)
	}
	if err == nil {
		err = s.waitCarrier(ctx, wants)
	}
	if err == nil {
		result, err = s.result(ctx, c, wants)
	}
	if err == nil {
		s.deleteFlows(c.Key(), &result)
		err = s.store.Commit(c.Key(), result)
	}
	if err != nil {
		s.undo(ctx, c.Key())
		return result, err
	}
	if p := podIn(a.record.Args); p.Name != "" {
		s.host.AttachmentsChanged(p)
	}
	if pods := a.record.pods(); a.record.Pod == "" && len(pods) > 0 {
		s.engine.Submit(lookAt(pods)) // values in the pod for which the runtime does not wait
	}
	return result, nil
}

// wantsOfPool returns the values of an ADD for the pool and mode of its network. It refuses the ADD
// if they conflict with existing objects.
func (s *Service) wantsOfPool(ctx context.Context, c *Call) ([]network.Want, *spec.Error) {
	if wrong := unmade(*c); wrong != nil {
		return nil, wrong
	}
	c.pools = s.pools(ctx, c.Network)
	n, wrong := network.New(c.Network, c.pools, c.IPAM)
	if wrong == nil {
		wrong = s.unknownMaster(ctx, n)
	}
	if wrong == nil {
		wrong = s.collides(ctx, c.Network.Name, n)
	}
	if wrong != nil {
		return nil, wrong
	}
	wants, wrong := s.join(c)
	if wrong != nil {
		return nil, wrong
	}
	wrong = s.incumbents(ctx, c.Network.Name, wants)
	if wrong == nil {
		wrong = s.portsFree(*c, n)
	}
	if wrong != nil {
		s.part(c.Key())
		return nil, wrong
	}
	return wants, nil
}

// byPool returns the addition of a call that requests values of its own.
func (s *Service) byPool(verb string, c Call, wants []network.Want) addition {
	keys := append(scheduled(wants), derivedOf(wants)...)
	return addition{
		record: Attachment{Key: c.Key(), Netns: c.Netns, Inode: c.Inode, Boot: s.host.Boot(), Config: c.Config, Args: c.Args.Args,
			Pools: encodePools(c.pools), IPAM: c.IPAM, NoDefault: c.without, Wants: keysOf(wants), Since: time.Now().Unix()},
		begin: scheduler.Txn{Source: Source, Note: verb + " " + c.Key().String(), Want: changes(wants)},
		keys:  keys,
		progress: func(ctx context.Context) ([]network.Want, string, error) {
			waits, err := s.waits(ctx, keys)
			if err == nil && waits != "" {
				err = s.exhausted(ctx, wants)
			}
			return wants, waits, err
		},
	}
}

// join adds a call to the users of its network, and returns all values that it requests.
func (s *Service) join(c *Call) ([]network.Want, *spec.Error) {
	n, wrong := network.New(c.Network, c.pools, c.IPAM)
	if wrong != nil {
		return nil, wrong
	}
	var has []network.DefaultRoute
	if !c.restored {
		if has, wrong = s.defaultsIn(*c); wrong != nil {
			return nil, wrong
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.restored {
		if c.without, wrong = network.LeftOut(c.Network, append(s.defaultsFor(*c), has...)); wrong != nil {
			return nil, wrong
		}
	}
	rt, wrong := c.runtime()
	if wrong != nil {
		return nil, wrong
	}
	wants, wrong := n.Attach(c.endpoint(rt))
	if wrong != nil {
		return nil, wrong
	}
	if other := taken(s.nets, c.Key(), rt.Ports); other != "" {
		return nil, &spec.Error{Code: spec.TryLater, Msg: "a port of the host is taken", Details: other}
	}
	if wrong := s.heldByContainer(c.Key(), n); wrong != nil && !c.restored {
		return nil, wrong
	}
	if wrong := s.heldByNetwork(c.Network.Name, n); wrong != nil && !c.restored {
		return nil, wrong
	}
	sh := s.nets[c.Network.Name]
	if sh == nil {
		sh = &shared{Network: n, users: map[Key]user{}}
		s.nets[c.Network.Name] = sh
	}
	if !sh.Same(n) {
		return nil, &spec.Error{Code: spec.BadConfig, Msg: "invalid network configuration",
			Details: fmt.Sprintf("%d attachments use %s with another mode, pool, bridge, master, mtu, masquerade or forward", len(sh.users), c.Network.Name)}
	}
	wants, settings := s.agree(*c, wants)
	wants = append(n.Shared[:len(n.Shared):len(n.Shared)], wants...)
	u := user{keys: map[string]bool{}, ports: rt.Ports, inode: c.Inode, settings: settings, defaults: network.DefaultRoutesOf(wants, n.Inside(c.Key().id()))}
	for _, w := range wants {
		u.keys[w.Key] = true
	}
	sh.users[c.Key()] = u
	return wants, nil
}

// part removes a call that failed from the users of its network.
func (s *Service) part(k Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(k, nil)
}

func changes(wants []network.Want) []scheduler.Change {
	list := make([]scheduler.Change, len(wants))
	for i, w := range wants {
		list[i] = scheduler.Set(scheduler.Key(w.Key), w.Value)
	}
	return list
}

// keysOf returns the sorted keys of wants.
func keysOf(wants []network.Want) []string {
	keys := make([]string, len(wants))
	for i, w := range wants {
		keys[i] = w.Key
	}
	slices.Sort(keys)
	return keys
}
