package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// ledgerSource is what earlier runs made, as a source of the scheduler: it wants nothing,
// and until it has said so nothing is deleted only because nobody wants it.
const ledgerSource = "ledger"

// recall lets the source of the ledgers speak, if they are whole.
func (a *agent) recall() error {
	if doubted := a.host.store.Doubted(); len(doubted) > 0 && a.host.lost.String() == "" {
		err := a.host.lost.add(attachedFile, fmt.Sprintf("%d attachments cannot be used by this release (first: %s)", len(doubted), doubted[0]), "")
		if err != nil {
			return err
		}
	}
	if a.host.lost.String() == "" {
		a.sched.Submit(scheduler.Txn{Source: ledgerSource, Note: "the ledgers are whole", Complete: true})
	}
	return nil
}

// believe counts what the ledgers do not know as not there. It returns nil if they are
// whole.
func (a *agent) believe(note string) (*scheduler.Handle, error) {
	if a.host.lost.String() == "" {
		return nil, nil
	}
	if err := a.host.lost.settle(); err != nil {
		return nil, err
	}
	a.log.Warn("what the ledgers do not know counts as not there from now on", "reason", note)
	return a.sched.Submit(scheduler.Txn{Source: ledgerSource, Note: note, Complete: true}), nil
}

// settleLosses ends the waiting for an operator once nothing is left that a loss can be about:
// no object without a wish, and no attachment that was there when it was found.
func (a *agent) settleLosses(ctx context.Context) {
	since := a.host.lost.since()
	if since.IsZero() || !allRead(a.sched) {
		return
	}
	for _, at := range a.host.store.Of("") {
		if !time.Unix(at.Since, 0).After(since) {
			return
		}
	}
	if sources, err := a.sched.Sources(ctx); err != nil || !allSynced(withoutLedger(sources)) {
		return
	}
	if _, err := a.believe("nothing is left of what was lost"); err != nil {
		a.log.Warn("that nothing is left of what was lost cannot be noted", "error", err)
	}
}

// withoutLedger are the sources of intent.
func withoutLedger(sources []scheduler.SourceState) []scheduler.SourceState {
	var list []scheduler.SourceState
	for _, s := range sources {
		if s.Name != ledgerSource {
			list = append(list, s)
		}
	}
	return list
}

// stateHealth reports whether the state directory can be relied on: what it says, and that
// it can be written.
func (a *agent) stateHealth() models.Health {
	h := models.Health{Name: "state", State: "ok", Since: a.started, Details: map[string]string{}}
	if n := a.host.owner.Copies(); n > 0 {
		h.Details["copied_marks"] = fmt.Sprint(n)
	}
	var reasons []string
	if lost := a.host.lost.String(); lost != "" {
		what := "what is not in the intent is kept"
		if n := a.cni.CountForgotten(context.Background()); n > 0 {
			h.Details["forgotten"] = fmt.Sprint(n)
			what = fmt.Sprintf("%d attachments have no record and stay as they are (agentctl cni, agentctl cni adopt|forget ID); %s", n, what)
		}
		h.Since = a.host.lost.since()
		reasons = append(reasons, fmt.Sprintf("%s; %s until `agentctl resync --accept`, which deletes it", lost, what))
	}
	if err := a.host.broken(); err != nil {
		reasons = append(reasons, fmt.Sprintf("the state directory cannot be written: %v; what is removed is removed all the same, nothing new can be made", err))
	}
	if len(reasons) > 0 {
		h.State, h.Reason = "degraded", strings.Join(reasons, "; ")
	}
	return h
}
