package cni

import (
	"context"
	"errors"
	"time"

	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/scheduler"
)

// delTimeout bounds how long a DEL waits for the removal of the keys that it withdraws. A longer
// removal continues in the background.
const delTimeout = 10 * time.Second

// del removes an attachment. It succeeds when the keys are withdrawn. It returns a warning if their
// removal takes longer, or if the store cannot be written. In the latter case it queues the call
// for the next start, which would otherwise find the attachment in the store. A call that was
// queued before fails instead, and stays in the queue.
func (s *Service) del(ctx context.Context, c Call) (answer wire.Answer) {
	k := c.Key()
	if _, there := s.store.Get(k); !there {
		return s.delForgotten(ctx, k)
	}
	if err := s.store.Remove(k); err != nil {
		answer.Warnings = append(answer.Warnings, "it is removed, but that cannot be written to the state directory: "+err.Error())
		if c.Queued != 0 { // it is in the queue already
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

// undo removes the objects of an ADD that failed. If the caller has gone or the agent stops, it
// waits for one second only; the next sweep or start completes the removal.
func (s *Service) undo(ctx context.Context, k Key) {
	rest := delTimeout
	if errors.Is(ctx.Err(), context.Canceled) {
		rest = time.Second
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rest)
	defer cancel()
	s.detach(ctx, k)
}

// detach withdraws the keys of an attachment, and those of its network if it was the last one. It
// returns the state of a key that is not removed yet, or "".
func (s *Service) detach(ctx context.Context, k Key) (left string) {
	a, _ := s.store.Get(k)
	defer s.deleteFlows(k, a.Result)
	if p := podIn(a.Args); p.Name != "" {
		defer s.host.AttachmentsChanged(p)
	}
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
	if pods := a.pods(); len(pods) > 0 {
		s.engine.Submit(lookAt(pods))
	}
	if left = gone(ctx, h); left == "" {
		s.store.Forget(k)
	}
	return left
}

// withdrawal returns the transaction that withdraws keys, including those of an earlier run of the
// agent. Their container has ended, so their deletion must not be held back.
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

// gone waits until the withdrawn keys are removed. It returns the state of one that is not, or "".
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
