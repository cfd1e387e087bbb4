package member

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/confirm"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

// restoreTime bounds waiting for what was brought back.
const restoreTime = 30 * time.Second

// Below these the store keeps intent, and which of it was written together.
const (
	configPrefix = "config/"
	setPrefix    = "applyset/"
)

// request takes the request up, if it is a new one.
func (m *Member) request(ctx context.Context, kv models.Stored, parts *sync.WaitGroup) {
	if kv.Revision == m.handled {
		return
	}
	m.handled = kv.Revision
	var r record.Request
	if err := json.Unmarshal(kv.Value, &r); err != nil || r.Rollout == "" {
		m.Log.Warn("what a rollout asks cannot be read", "error", err)
		return
	}
	m.Log.Info("a rollout asks", "rollout", r.Rollout, "phase", r.Phase, "by", r.By, "keys", len(r.Items)+len(r.Changes))
	last, attended := m.standing()
	known := last.Rollout == r.Rollout && last.Attempt == r.Attempt
	out := record.Outcome{Rollout: r.Rollout, Attempt: r.Attempt}
	refuse := func(why string) {
		out.Phase, out.Reason = record.Refused, why
		parts.Go(func() { _ = m.write(ctx, out) })
	}
	switch {
	case (r.Phase == record.Keep || r.Phase == record.Abort) && !known:
		refuse("this host knows nothing of it")
	case r.Phase == record.Keep || r.Phase == record.Abort:
		if attended {
			m.end(r, last)
		} else {
			parts.Go(func() { m.settle(ctx, r, last) })
		}
	case r.Phase == record.Try && known: // it is told already, or goes on
	case r.Phase != record.Try && r.Phase != record.Restore:
		refuse(fmt.Sprintf("this agent knows no phase %q", r.Phase))
	case attended && last.Rollout == r.Rollout: // who asked before has given up
		m.end(record.Request{Phase: record.Abort, By: r.By}, last)
		m.handled = 0 // it is its turn when that has ended
	case attended:
		refuse(fmt.Sprintf("this host is at rollout %s", last.Rollout))
	case r.Phase == record.Try:
		out.Phase = record.Trying
		m.enter(out)
		parts.Go(func() { defer m.leave(); m.try(ctx, r, out, kv.Revision) })
	default:
		out.Phase = record.Restoring
		m.enter(out)
		parts.Go(func() { defer m.leave(); m.restore(ctx, r, out) })
	}
}

// standing is the last outcome, and whether something goes on about it.
func (m *Member) standing() (last record.Outcome, attended bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out, m.attended
}

// enter notes that something goes on.
func (m *Member) enter(out record.Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out, m.attended = out, true
}

// leave notes that nothing goes on any more.
func (m *Member) leave() {
	m.mu.Lock()
	m.attended = false
	m.mu.Unlock()
	m.lookAgain()
}

// end has the change stay or go that waits for that; attend tells what came of it.
func (m *Member) end(r record.Request, last record.Outcome) {
	t, err := m.Confirms.Find(last.Confirm)
	switch {
	case last.Confirm == "" || err != nil: // it has not come so far, or is at its end
		m.handled = 0
	case r.Phase == record.Abort:
		t.Abort(r.By + " aborted it")
	default:
		if err := t.Confirm(); err != nil {
			m.Log.Warn("a change of a rollout cannot be confirmed", "rollout", r.Rollout, "error", err)
		}
	}
}

// settle answers for a host where nothing waits to be confirmed.
func (m *Member) settle(ctx context.Context, r record.Request, last record.Outcome) {
	switch {
	case r.Phase == record.Keep && last.Phase == record.Healthy:
		last.Phase = record.Kept
	case r.Phase == record.Abort && last.Phase == record.Healthy:
		last.Phase = record.Reverted
	default:
		return // it is told how it ended
	}
	_ = m.tell(ctx, last)
}

// try writes the values, to be taken back unless they are to be kept, and tells whether
// they work.
func (m *Member) try(ctx context.Context, r record.Request, out record.Outcome, revision int64) {
	if m.write(ctx, out) != nil {
		return
	}
	refuse := func(why string) {
		out.Phase, out.Reason = record.Refused, why
		_ = m.tell(ctx, out)
	}
	if why := cmp.Or(m.lapsed(ctx, revision), m.barred(ctx, r)); why != "" {
		refuse(why)
		return
	}
	applied, err := m.API.Apply(m.As(ctx, by(r)), applyOf(r))
	if err != nil {
		refuse(err.Error())
		return
	}
	t, err := m.Confirms.Find(applied.Confirm.GetName())
	switch {
	case applied.Confirm == nil: // all is as it should be already
		t = nil
	case err != nil:
		refuse("the change ended at once: " + err.Error())
		return
	default:
		out.Confirm, out.Changes = applied.Confirm.Name, changesOf(t)
		if err := m.tell(ctx, out); err != nil {
			if ctx.Err() == nil {
				t.Abort(err.Error())
				refuse(err.Error())
			}
			return
		}
		m.lookAgain() // it may be aborted by now
	}
	m.attend(ctx, r, out, t, applied.Revision)
}

// lapsed says that a request does not stand any more, which may have happened while the store
// was away.
func (m *Member) lapsed(ctx context.Context, revision int64) string {
	switch kv, found, err := m.Store.Get(ctx, record.RequestKey); {
	case err != nil:
		return err.Error()
	case !found || kv.Revision != revision:
		return "nobody asks for it any more"
	}
	return ""
}

// barred says why nothing may be tried on this host now.
func (m *Member) barred(ctx context.Context, r record.Request) string {
	st, err := m.API.AgentStatus(ctx, &apiv1.AgentStatusRequest{})
	switch {
	case err != nil:
		return err.Error()
	case st.Frozen:
		return "this host is frozen: " + st.Freeze.GetMessage()
	}
	for _, p := range r.Probes {
		if strings.HasPrefix(p, "exec:") {
			return "probes that run a command do not come through etcd"
		}
	}
	return ""
}

func by(r record.Request) string { return fmt.Sprintf("%s, by rollout %s", r.By, r.Rollout) }

func applyOf(r record.Request) *apiv1.ApplyRequest {
	out := &apiv1.ApplyRequest{
		Confirm: durationpb.New(time.Duration(r.Seconds) * time.Second), Probes: r.Probes, Message: r.Message, NoValues: true,
		Set: r.Set, Prune: r.Prune,
	}
	for _, i := range r.Items {
		out.Items = append(out.Items, &apiv1.Item{Key: i.Key, Text: string(i.Value), Where: i.Where})
	}
	return out
}

// undoable reports whether a rollout may bring a key of the store back.
func undoable(key string) bool {
	return strings.HasPrefix(key, configPrefix) || strings.HasPrefix(key, setPrefix)
}

// changesOf are the values that a change writes.
func changesOf(t *confirm.Trial) (out []record.Change) {
	for _, c := range t.Pending().Changes {
		if undoable(c.Key) {
			out = append(out, record.Change(c))
		}
	}
	return out
}

// attend follows a change, which the store holds since the revision, until it stays or is
// taken back. t is nil if nothing had to be changed.
func (m *Member) attend(ctx context.Context, r record.Request, out record.Outcome, t *confirm.Trial, revision int64) {
	if out.Phase == record.Trying {
		why := m.check(ctx, r, t, revision)
		if ctx.Err() != nil {
			return // the next run goes on
		}
		switch {
		case why == "":
			out.Phase = record.Healthy
			if m.tell(ctx, out) != nil {
				return
			}
		case t == nil:
			out.Phase, out.Reason = record.Reverted, why
			_ = m.tell(ctx, out)
			return
		default:
			t.Abort(why)
		}
	}
	if t == nil {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-t.Ended():
	}
	reason, notes := t.Reverted()
	out.Phase, out.Reason, out.Notes = record.Kept, reason, notes
	if reason != "" {
		out.Phase = record.Reverted
	}
	_ = m.tell(ctx, out)
}

// check waits until the keys have settled and every probe has succeeded, and says why the
// host is not healthy.
func (m *Member) check(ctx context.Context, r record.Request, t *confirm.Trial, revision int64) string {
	var keys []string
	for _, item := range r.Items {
		keys = append(keys, item.Key)
	}
	pruned := map[string]bool{}
	if t != nil {
		for _, c := range t.Pending().Changes {
			if key, intent := strings.CutPrefix(c.Key, configPrefix); intent && c.After == nil {
				pruned[key] = true
				keys = append(keys, key)
			}
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if t != nil {
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		watching.Go(func() {
			select {
			case <-t.Ended():
				cancel()
			case <-ctx.Done():
			}
		})
	}
	// Before that the keys are as they were.
	if err := m.Store.Reached(ctx, revision); err != nil {
		return err.Error()
	}
	got, err := m.API.Wait(ctx, &apiv1.WaitRequest{Keys: keys, For: "settled", Timeout: durationpb.New(time.Duration(r.Seconds) * time.Second), NoValues: true})
	switch {
	case err != nil:
		return err.Error()
	case got.Outcome != "met":
		return "not all keys settled in time"
	}
	if bad := unhealthy(got.Keys, pruned, r.PendingOK); len(bad) > 0 {
		return strings.Join(some(bad), "; ")
	}
	if t == nil { // nothing had to be written, which says nothing of the network
		if err := m.Confirms.Prove(ctx, r.Probes); err != nil {
			return err.Error()
		}
		return ""
	}
	select {
	case <-t.Probed():
		return ""
	case <-ctx.Done():
		return ctx.Err().Error()
	}
}

// unhealthy says of the keys, and of what they derive, which are not as they should be. What
// was pruned should be gone, or be what something else than the store wants.
func unhealthy(keys []*apiv1.KeyStatus, pruned map[string]bool, pendingOK bool) (out []string) {
	for _, k := range keys {
		switch {
		case pruned[k.Key] && (k.State == "absent" || k.State == "removed"):
		case k.State == "configured", k.State == "observed", k.State == "pending" && pendingOK:
		case k.Reason != "":
			out = append(out, fmt.Sprintf("%s is %s: %s", k.Key, k.State, short(k.Reason)))
		default:
			out = append(out, fmt.Sprintf("%s is %s", k.Key, k.State))
		}
		out = append(out, unhealthy(k.Derived, nil, pendingOK)...)
	}
	return out
}

// some are the first of many reasons, and how many more there are.
func some(reasons []string) []string {
	if more := len(reasons) - someReasons; more > 0 {
		return append(slices.Clip(reasons[:someReasons]), fmt.Sprintf("and %d more", more))
	}
	return reasons
}

// resume goes on with what an earlier run was at.
func (m *Member) resume(ctx context.Context, out record.Outcome) {
	defer m.leave()
	if out.Confirm != "" {
		if t, err := m.Confirms.Find(out.Confirm); err == nil {
			r := record.Request{Rollout: out.Rollout, Seconds: int(time.Until(t.Pending().Deadline)/time.Second) + 1}
			for _, k := range t.Pending().Keys() {
				r.Items = append(r.Items, record.Item{Key: k})
			}
			m.attend(ctx, r, out, t, 1) // the store is to be read first
			return
		}
	}
	out.Phase, out.Reason = record.Reverted, "the agent was started anew, and the change is not there"
	if there, err := m.holds(ctx, out.Changes); err == nil && there && len(out.Changes) > 0 {
		out.Phase, out.Reason = record.Kept, ""
	}
	_ = m.tell(ctx, out)
}

// holds reports whether the store holds what the changes wrote.
func (m *Member) holds(ctx context.Context, changes []record.Change) (bool, error) {
	for _, c := range changes {
		kv, found, err := m.Store.Get(ctx, c.Key)
		if err != nil {
			return false, err
		}
		if !same(valueOf(kv, found), c.After) {
			return false, nil
		}
	}
	return true, nil
}

// restore brings back what was before a rollout, for the keys that are as it left them.
func (m *Member) restore(ctx context.Context, r record.Request, out record.Outcome) {
	var brought []string
	for _, c := range r.Changes {
		if key, intent := strings.CutPrefix(c.Key, configPrefix); intent && c.Before == nil {
			brought = append(brought, key)
		}
	}
	defer m.Confirms.TakeBack(brought)()
	revision, notes, err := m.writeBack(ctx, r)
	if err != nil {
		out.Phase, out.Reason = record.Refused, err.Error()
		_ = m.tell(ctx, out)
		return
	}
	if revision > 0 {
		notes = append(notes, m.awaitBack(ctx, r.Changes, revision)...)
	}
	out.Phase, out.Notes = record.Restored, notes
	_ = m.tell(ctx, out)
}

// awaitBack waits until the keys have settled that were brought back at a revision, and says
// which of them are not as they should be.
func (m *Member) awaitBack(ctx context.Context, changes []record.Change, revision int64) []string {
	var keys []string
	goes := map[string]bool{}
	for _, c := range changes {
		if key, intent := strings.CutPrefix(c.Key, configPrefix); intent { // a set of keys is none that settles
			keys = append(keys, key)
			goes[key] = c.Before == nil
		}
	}
	if len(keys) == 0 {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, restoreTime)
	defer cancel()
	err := m.Store.Reached(waiting, revision)
	var got *apiv1.WaitResponse
	if err == nil {
		got, err = m.API.Wait(waiting, &apiv1.WaitRequest{Keys: keys, For: "settled", NoValues: true})
	}
	switch {
	case waiting.Err() != nil:
		return []string{"what is brought back has not settled yet"}
	case err != nil:
		return []string{"whether what is brought back has settled is not known: " + err.Error()}
	}
	return some(unhealthy(got.Keys, goes, true)) // pending it may have been before
}

// writeBack writes the values of before in one transaction, in which nobody else's value is
// written over.
func (m *Member) writeBack(ctx context.Context, r record.Request) (revision int64, notes []string, err error) {
	const tries = 5
	for range tries {
		var writes []models.Write
		notes = nil
		for _, c := range r.Changes {
			if !undoable(c.Key) {
				return 0, nil, fmt.Errorf("%q is no key of intent", c.Key)
			}
			kv, found, err := m.Store.Get(ctx, c.Key)
			if err != nil {
				return 0, nil, err
			}
			switch is := valueOf(kv, found); {
			case same(is, c.Before):
			case !same(is, c.After):
				notes = append(notes, strings.TrimPrefix(c.Key, configPrefix)+" was changed by somebody else meanwhile and stays")
			default:
				writes = append(writes, models.Write{Key: c.Key, Value: c.Before, If: &kv.Revision})
			}
		}
		if len(writes) == 0 {
			return 0, notes, nil
		}
		now := time.Now()
		author := models.Author{By: by(r), Message: "rollout " + r.Rollout + " is undone", Time: now}
		revision, err = m.Store.Write(ctx, append(slices.Clip(writes), author.Write(fmt.Sprintf("%016x-%s", now.UnixNano(), r.Rollout))))
		if !errors.Is(err, models.ErrStoreConflict) {
			break
		}
	}
	return revision, notes, err
}

// valueOf is what the store holds; nil for nothing.
func valueOf(kv models.Stored, found bool) []byte {
	switch {
	case !found:
		return nil
	case kv.Value == nil:
		return []byte{}
	}
	return kv.Value
}

// same compares values; that there is none is something else than an empty one.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
