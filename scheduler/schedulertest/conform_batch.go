package schedulertest

import (
	"context"
	"slices"

	"github.com/plumb-net/plumb/scheduler"
)

// wave are the samples whose needs are in place and that are not there yet.
func (x *trial[V, M]) wave() (ops []*scheduler.Op[V, M]) {
	for _, s := range x.spec.Samples {
		if _, _, there := x.view.Get(s.Key); there {
			continue
		}
		ready := !slices.ContainsFunc(x.needed(s.Key, s.Values[0]), func(n Sample[V]) bool {
			_, _, there := x.view.Get(n.Key)
			return !there
		})
		if ready {
			ops = append(ops, &scheduler.Op[V, M]{Key: s.Key, Value: s.Values[0]})
		}
	}
	return ops
}

// createWave makes what is ready, by the batch if there is one.
func (x *trial[V, M]) createWave(ops []*scheduler.Op[V, M]) bool {
	if x.d.CreateBatch == nil {
		for _, o := range ops {
			if !x.create(o.Key, o.Value) {
				return false
			}
		}
		return true
	}
	ctx, cancel := x.deadline()
	defer cancel()
	x.d.CreateBatch(ctx, ops)
	ok := true
	for _, o := range ops {
		if o.Err != nil {
			x.fail(o.Key, "CreateBatch failed: %v", o.Err)
			ok = false
			continue
		}
		x.made(o.Key, o.Value, o.Meta)
	}
	return ok
}

func (x *trial[V, M]) batch() {
	if x.d.CreateBatch != nil {
		x.d.CreateBatch(context.Background(), nil)
	}
	var waves [][]*scheduler.Op[V, M]
	for ops := x.wave(); len(ops) > 0; ops = x.wave() {
		if !x.createWave(ops) {
			return
		}
		for _, o := range ops {
			f, ok := x.isAs(o.Key, o.Value, "CreateBatch")
			if ok && show(f.Meta) != show(x.metaOf(o.Key)) {
				x.fail(o.Key, "the batch gave the metadata %s, Retrieve finds %s", show(x.metaOf(o.Key)), show(f.Meta))
			}
		}
		waves = append(waves, ops)
	}
	if x.d.DeleteBatch == nil {
		return
	}
	x.d.DeleteBatch(context.Background(), nil)
	for _, ops := range slices.Backward(waves) {
		for _, after := range []string{"DeleteBatch", "DeleteBatch of what is gone"} {
			x.deleteWave(ops, after)
		}
	}
}

func (x *trial[V, M]) metaOf(k scheduler.Key) M {
	_, m, _ := x.view.Get(k)
	return m
}

func (x *trial[V, M]) deleteWave(ops []*scheduler.Op[V, M], after string) {
	ctx, cancel := x.deadline()
	defer cancel()
	doomed := make([]*scheduler.Op[V, M], len(ops))
	for i, o := range ops {
		doomed[i] = &scheduler.Op[V, M]{Key: o.Key, Value: o.Value, Meta: o.Meta}
	}
	x.d.DeleteBatch(ctx, doomed)
	for _, o := range doomed {
		if o.Err != nil {
			x.fail(o.Key, "%s failed: %v", after, o.Err)
			continue
		}
		x.gone(o.Key)
		x.isGone(o.Key, after)
	}
}

func (x *trial[V, M]) batchResults() {
	ops := x.wave()
	x.at = ops[0].Key
	stands := x.spec.Foreign(x.t, ops[0].Key, ops[0].Value)
	ctx, cancel := x.deadline()
	defer cancel()
	x.d.CreateBatch(ctx, ops)
	for i, o := range ops {
		switch {
		case i == 0 && ownerOf(o.Err) == "":
			x.fail(o.Key, "somebody else's object is in the way; its result is %v, want a Conflict", o.Err)
		case i == 0:
		case o.Err != nil:
			x.fail(o.Key, "it failed because %s did: %v", ops[0].Key, o.Err)
		default:
			x.made(o.Key, o.Value, o.Meta)
			x.isAs(o.Key, o.Value, "a batch in which another failed")
		}
	}
	if !stands() {
		x.fail(ops[0].Key, "somebody else's object is not as it was")
	}
}
