package confirm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/models"
)

const (
	// settleTime bounds waiting for what is taken back before it is forgotten.
	settleTime = 10 * time.Second
	// writeTime bounds one try to write the former values.
	writeTime = 3 * time.Second
	// retryFirst and retryLast are between two tries.
	retryFirst, retryLast = 500 * time.Millisecond, 5 * time.Second
)

// revert takes the change back. As long as the store cannot be written its former values
// count nevertheless.
func (t *Trial) revert(ctx context.Context) {
	p := t.Pending()
	t.announce()
	t.c.Log.Warn("a change is taken back", "name", p.Name, "by", p.By, "keys", len(p.Keys()), "reason", p.Reverting)
	wait := retryFirst
	for tries := 1; ; tries++ {
		revision, notes, err := t.c.writeBack(ctx, p)
		if ctx.Err() != nil {
			return // the next run goes on with it
		}
		if err == nil {
			t.reverted(ctx, revision, notes)
			return
		}
		t.noteTrouble(err)
		// Once more now and then, ever less often: what the change made can be withdrawn
		// only when it was read; and each time is in the history, and the store, if it can
		// be read, is listed anew.
		if tries&(tries-1) == 0 {
			t.c.Store.Override(p.overrides())
		}
		t.hindered.set()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, retryLast)
	}
}

// announce tells that what the change has brought is taken back.
func (t *Trial) announce() {
	t.announced.Do(func() { t.takenBack = t.c.TakeBack(t.Pending().brought()) })
}

// noteTrouble notes why the store cannot be written, and logs it once.
func (t *Trial) noteTrouble(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.trouble == "" {
		t.c.Log.Warn("a change is taken back on this host, and cannot be in the store yet", "name", t.p.Name, "error", err)
	}
	t.trouble = err.Error()
}

func (t *Trial) reverted(ctx context.Context, revision int64, notes []string) {
	if revision > 0 {
		reached, cancel := context.WithTimeout(ctx, writeTime)
		_ = t.c.Store.Reached(reached, revision) // what counts goes on counting until the next list
		cancel()
	}
	t.c.Store.Override(nil)
	// Until then a crash has it taken back once more, and what goes is known to go.
	settled, cancel := context.WithTimeout(ctx, settleTime)
	_ = t.c.Settled(settled, t.Pending().Keys())
	cancel()
	t.takenBack()
	t.mu.Lock()
	t.notes, t.trouble = notes, ""
	name := t.p.Name
	t.mu.Unlock()
	if err := t.end(); err != nil { // then it is found to be done at the next start
		t.c.Log.Warn("the record of a change that was taken back cannot be removed", "name", name, "error", err)
		t.leave()
	}
	t.c.Log.Warn("a change was taken back", "name", name, "revision", revision, "left", strings.Join(notes, "; "))
}

// leave ends the change though its record is still there.
func (t *Trial) leave() {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.c.trial = nil
	t.ended.set()
}

// writeBack writes what was before the changes, for the keys that are as they left them.
func (c *Confirmer) writeBack(ctx context.Context, p Pending) (revision int64, notes []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	for {
		var writes []models.Write
		if writes, notes, err = c.former(ctx, p.Changes); err == nil && len(writes) > 0 {
			revision, err = c.writeAll(ctx, p, writes)
		}
		if !errors.Is(err, models.ErrStoreConflict) || ctx.Err() != nil {
			return revision, notes, err
		}
	}
}

// writeAll writes in as few transactions as the store takes: former values can be larger
// than those that it took at once.
func (c *Confirmer) writeAll(ctx context.Context, p Pending, writes []models.Write) (revision int64, err error) {
	now := time.Now()
	author := models.Author{By: "plumb-agent", Message: p.Name + " is taken back: " + p.Reverting, Time: now}
	revision, err = c.Store.Write(ctx, append(slices.Clip(writes), author.Write(fmt.Sprintf("%016x-%s", now.UnixNano(), p.Name))))
	if err == nil || len(writes) == 1 || errors.Is(err, models.ErrStoreConflict) || errors.Is(err, models.ErrStoreDown) || ctx.Err() != nil {
		return revision, err
	}
	if _, err = c.writeAll(ctx, p, writes[:len(writes)/2]); err != nil {
		return 0, err
	}
	return c.writeAll(ctx, p, writes[len(writes)/2:])
}

// former are the writes that bring back what was before.
func (c *Confirmer) former(ctx context.Context, changes []Change) (writes []models.Write, notes []string, err error) {
	for _, d := range changes {
		now, there, err := c.Store.Get(ctx, d.Key)
		if err != nil {
			return nil, nil, err
		}
		is := now.Value
		switch {
		case !there:
			is = nil
		case is == nil:
			is = []byte{}
		}
		switch {
		case same(is, d.Before):
		case !same(is, d.After):
			notes = append(notes, strings.TrimPrefix(d.Key, "config/")+" was changed by somebody else meanwhile and stays")
		default:
			writes = append(writes, models.Write{Key: d.Key, Value: d.Before, If: &now.Revision})
		}
	}
	return writes, notes, nil
}

// same compares values; that there is none is something else than an empty one.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
