// Package readiness judges whether all keys of an object of the API server are configured, and why not.
package readiness

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// States of a set of keys.
const (
	Ready   = "ready"
	Pending = "pending"
	Failed  = "failed"
)

// Engine is the part of the scheduler that statuses are read from.
type Engine interface {
	Watch(prefixes ...scheduler.Key) *scheduler.Watcher
	List(ctx context.Context, prefixes ...scheduler.Key) ([]scheduler.Status, error)
	Why(ctx context.Context, k scheduler.Key) (scheduler.Cause, error)
}

// Verdict is the state of a set of keys.
type Verdict struct {
	// State is the state of the worst key: Ready, Pending or Failed.
	State string
	// Worst is the status of the worst key, if State is not Ready.
	Worst scheduler.Status
	// Root is the key that the worst key waits for in the end, or "".
	Root scheduler.Key
	// Reason is why the root is not configured.
	Reason string
	// All are the statuses of the keys and of the addresses of their interfaces, the worst first.
	All []scheduler.Status
}

// Of returns the state of a set of keys, and of the addresses of their interfaces. An empty set is ready.
func Of(ctx context.Context, e Engine, keys []scheduler.Key) (v Verdict, err error) {
	v.State = Ready
	if len(keys) == 0 {
		return v, nil
	}
	if v.All, err = e.List(ctx, Prefixes(keys)...); err != nil {
		return v, err
	}
	// With equal states, keys precede the keys that are derived from them.
	slices.SortStableFunc(v.All, func(a, b scheduler.Status) int {
		return cmp.Or(severity(b.State)-severity(a.State), strings.Compare(string(a.Base), string(b.Base)))
	})
	if len(v.All) == 0 || severity(v.All[0].State) == 0 {
		return v, nil
	}
	v.Worst = v.All[0]
	if v.State = Pending; severity(v.Worst.State) > 1 {
		v.State = Failed
	}
	v.Reason = v.Worst.Reason
	if why, err := e.Why(ctx, v.Worst.Key); err == nil && len(why.Roots) > 0 && v.Worst.State == scheduler.Pending {
		v.Reason, v.Root = cmp.Or(why.Roots[0].Text, v.Reason), why.Roots[0].Key
	}
	return v, nil
}

// Prefixes returns the prefixes of keys and of the addresses of their interfaces.
func Prefixes(keys []scheduler.Key) []scheduler.Key {
	all := slices.Clone(keys)
	for _, k := range keys {
		if name, ok := strings.CutPrefix(string(k), models.KindInterface+"/"); ok {
			all = append(all, scheduler.Key(models.AddressPrefix(name)))
		}
	}
	return all
}

// severity orders states: 0 is configured, 2 and more do not get better by waiting for something else.
func severity(s scheduler.State) int {
	switch s {
	case scheduler.Configured:
		return 0
	case scheduler.InvalidState, scheduler.Failed:
		return 3
	case scheduler.Retrying:
		return 2
	}
	return 1
}

// maxMessage bounds a message in bytes.
const maxMessage = 1024

// Message returns a text that is short enough for a message of a condition.
func Message(text string) string {
	if len(text) > maxMessage {
		return strings.ToValidUTF8(text[:maxMessage-3], "") + "…"
	}
	return text
}
