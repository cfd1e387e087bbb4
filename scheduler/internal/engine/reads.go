package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// LookAt asks for keys, or all below a key that ends in "/", to be read,
// together with all that depends on what turns out to have changed. Who asks for a
// look asks for another try also; who only tells of an event does not, if nothing
// turns out to have moved.
func (e *nodes) LookAt(keys []kv.Key, asked bool) []*graph.Node {
	var touched []*graph.Node
	for _, key := range keys {
		if !kv.IsPrefix(key) {
			if n := e.markKeyForRead(key, asked); n != nil {
				touched = append(touched, n)
			}
			continue
		}
		for _, k := range e.Kinds.All() {
			if strings.HasPrefix(string(k.Prefix), string(key)) {
				e.lookAtKind(k)
			}
		}
		if e.Kinds.Find(key) != nil && e.Kinds.Find(key).Prefix != key {
			var under []*graph.Node
			e.G.Below(key, func(n *graph.Node) bool { under = append(under, n); return true })
			slices.SortFunc(under, assess.ByKey)
			for _, n := range under {
				e.markForRead(n)
				touched = append(touched, n)
			}
		}
	}
	return touched
}

func (e *nodes) markKeyForRead(key kv.Key, asked bool) *graph.Node {
	if e.Kinds.Find(key) == nil {
		return nil
	}
	n := e.G.Node(key)
	if asked {
		e.clearHold(n)
	}
	e.markForRead(n)
	return n
}

// markForRead has the node read before anything is done to it.
func (e *nodes) markForRead(n *graph.Node) {
	if k := kind.Of(n); k == nil || k.Retrieve == nil {
		return
	}
	if n.Busy() {
		e.SetFlag(n, assess.FlagLookAgain, true)
		return
	}
	e.SetFlag(n, assess.FlagNeedsRead, true)
	e.G.Wake(n)
}

// LookAtAll re-reads all kinds; what had failed is tried again.
func (e *nodes) LookAtAll() {
	var held []*graph.Node
	e.G.All(func(n *graph.Node) bool {
		if n.Held() != graph.NotHeld {
			held = append(held, n)
		}
		return true
	})
	slices.SortFunc(held, assess.ByKey)
	for _, n := range held {
		e.TryAgain(n)
	}
	for _, k := range e.Kinds.All() {
		e.lookAtKind(k)
	}
}

func (e *nodes) lookAtKind(k *kind.Kind) {
	if k.Retrieve == nil {
		return
	}
	k.Look.Cause = e.G.Cause
	if k.Look.Running {
		k.Look.Again = true
		return
	}
	k.Look.All = true
	e.listLook(k)
}

func (e *nodes) listLook(k *kind.Kind) {
	if !k.Look.Listed {
		k.Look.Listed = true
		e.Looks = append(e.Looks, k)
	}
}

// QueueLook has a node read with the next read of single keys of its kind.
func (e *nodes) QueueLook(n *graph.Node) {
	k := kind.Of(n)
	if n.Phase == graph.Queued {
		return
	}
	n.Flags &^= assess.FlagNeedsRead
	e.G.BecomeQueued(n)
	k.Look.Queued = append(k.Look.Queued, n)
	e.listLook(k)
}

// FlushLooks makes one read per kind of all that waits to be read.
func (e *Engine) FlushLooks() {
	later := e.Looks[:0]
	for _, k := range e.Looks {
		if e.readsFirst(k) {
			later = append(later, k)
			continue
		}
		k.Look.Listed = false
		refused := e.unreadBefore(k)
		if k.Look.All {
			k.Look.All, k.Look.Running = false, true
			e.stamp++
			k.Look.Stamp = e.stamp
			e.Reading++
			e.Ready = append(e.Ready, &kind.Op{Kind: k, What: kv.OpLook, Cause: k.Look.Cause, Reading: &kind.Reading{LookAll: true, Stamp: e.stamp, Refused: refused,
				Scope: kind.Scope{All: true, Known: e.KnownOf(k)}}})
		}
		if len(k.Look.Queued) == 0 {
			continue
		}
		nodes := k.Look.Queued
		k.Look.Queued = nil
		o := &kind.Op{Kind: k, What: kv.OpLook, Reading: &kind.Reading{Nodes: nodes, Stamp: e.stamp, Refused: refused}}
		for _, n := range nodes {
			e.G.BecomeReading(n)
			o.Scope.Keys = append(o.Scope.Keys, n.Key)
			if n.Actual != nil || n.Goal() != nil {
				o.Scope.Known = append(o.Scope.Known, kind.KnownNode(n))
			}
		}
		e.Reading++
		slices.Sort(o.Scope.Keys)
		e.Ready = append(e.Ready, o)
	}
	e.Looks = later
}

// readsFirst reports whether all of a kind is about to be read that k is read after.
func (e *Engine) readsFirst(k *kind.Kind) bool {
	return slices.ContainsFunc(k.ReadAfter, func(name string) bool {
		o := e.Kinds.Named(name)
		return o != nil && (o.Look.All || o.Look.Running)
	})
}

// unreadBefore says why k cannot be read: a kind that it is read after never was.
func (e *Engine) unreadBefore(k *kind.Kind) error {
	for _, name := range k.ReadAfter {
		if o := e.Kinds.Named(name); o != nil && o.Reads && !o.Read {
			return fmt.Errorf("%s is read after %s, which cannot be read: %s", k.Name, name, kv.FirstLine(o.Look.Err))
		}
	}
	return nil
}

// readAgainAfter has those kinds read again that are read after k: it was read for the
// first time, or again after it could not be, or has come.
func (e *nodes) readAgainAfter(k *kind.Kind) {
	for _, o := range e.Kinds.All() {
		if slices.Contains(o.ReadAfter, k.Name) {
			e.lookAtKind(o)
		}
	}
}
