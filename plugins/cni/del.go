package cni

import (
	"context"
	"errors"
	"time"

	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/scheduler"
)

// delTimeout is for how long a DEL waits until what it withdrew is gone. What takes
// longer goes on by itself.
const delTimeout = 10 * time.Second

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
	rest := delTimeout
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
	defer s.deleteFlows(k, a.Result)
	if a.Pod != "" {
		return s.leavePod(ctx, a)
	}
	sharing := s.sharing(ctx, k.Network)
	s.mu.Lock()
	keep := s.leave(k, a.Wants)
	var keys []scheduler.Key
	for _, key := range a.Wants {
		if _, own, _ := network.AttachmentOf(nameOf(scheduler.Key(key))); !keep[key] && (own != "" || !sharing) {
			keys = append(keys, scheduler.Key(key))
		}
	}
	h := s.engine.Submit(withdrawal("DEL "+k.String(), keys))
	if inherited := s.inherit(a.Inode); len(inherited) > 0 {
		s.engine.Submit(scheduler.Txn{Source: Source, Note: "settings that " + k.String() + " held", Want: changes(inherited)})
	}
	s.mu.Unlock()
	if left = gone(ctx, h); left == "" {
		s.store.Forget(k)
	}
	return left
}

// withdrawal takes back what is wanted, or was by an earlier run. What it served has ended, so
// nothing may hold it back.
func withdrawal(note string, keys []scheduler.Key) scheduler.Txn {
	txn := scheduler.Txn{Source: Source, Note: note, ByOwner: true}
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
	ctx, cancel := context.WithTimeout(ctx, delTimeout)
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
