package cni_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/plugins/cni"
)

var eth0 = cni.Key{Network: "blue", ContainerID: "c1", IfName: "eth0"}

// visit is one call: it enters, says so, and leaves when it may or must.
type visit struct {
	t    *cni.KeyedQueue
	log  *[]string
	mu   *sync.Mutex
	done chan struct{}
}

func (v visit) say(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	*v.log = append(*v.log, fmt.Sprintf(format, args...))
}

func (v visit) call(ctx context.Context, name string, k cni.Key, del bool) {
	ctx, leave, err := v.t.Enter(ctx, k, del)
	if err != nil {
		v.say("%s given up: %v", name, err)
		return
	}
	defer leave()
	v.say("%s in", name)
	select {
	case <-v.done:
	case <-ctx.Done():
		v.say("%s ended: %v", name, context.Cause(ctx))
	}
}

// TestDELEndsWaitingADD: a DEL ends the ADDs before it, those that run and those
// that wait, and begins when they have left.
func TestDELEndsWaitingADD(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		v := visit{&cni.KeyedQueue{}, &log, &sync.Mutex{}, make(chan struct{})}
		for _, c := range []struct {
			name string
			key  cni.Key
			del  bool
		}{
			{"add", eth0, false}, {"again", eth0, false}, {"other", cni.Key{Network: "blue", ContainerID: "c2", IfName: "eth0"}, false},
			{"del", eth0, true}, {"del too", eth0, true}, {"later", eth0, false},
		} {
			go v.call(t.Context(), c.name, c.key, c.del)
			synctest.Wait()
		}
		before := slices.Clone(log)
		close(v.done)
		synctest.Wait()
		slices.Sort(before[2:])
		want := []string{"add in", "other in", "add ended: " + cni.ErrDeleted.Error(), "again given up: " + cni.ErrDeleted.Error(), "del in"}
		if !slices.Equal(before, want) {
			t.Errorf("before\n%q, want\n%q", before, want)
		}
		if rest := log[5:]; !slices.Equal(rest, []string{"del too in", "later in"}) {
			t.Errorf("after: %q", rest)
		}
	})
}

// TestInOrder: calls about one attachment are one after another in their order,
// and who stops waiting holds up nobody.
func TestInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &cni.KeyedQueue{}
		_, leave, err := turns.Enter(t.Context(), eth0, false)
		must(t, err)
		var order []int
		var mu sync.Mutex
		gone, stop := context.WithCancelCause(t.Context())
		for i := range 5 {
			ctx := t.Context()
			if i == 2 {
				ctx = gone
			}
			go func() {
				_, leave, err := turns.Enter(ctx, eth0, false)
				if err != nil {
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				leave()
			}()
			synctest.Wait()
		}
		stop(errors.New("the client has gone"))
		synctest.Wait()
		if len(order) > 0 {
			t.Errorf("%v did not wait", order)
		}
		leave()
		synctest.Wait()
		if !slices.Equal(order, []int{0, 1, 3, 4}) {
			t.Errorf("order %v", order)
		}
	})
}
