package ipam_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/descriptors/ipam"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Who waits for a lease is told of it before the operation ends that brought it: nobody sees
// both at rest in between, and takes a claim for one that gets nothing.
func TestLeasesAreToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, &kernel.MemLedger{})
		leases, pools := ipam.Leases(b), ipam.Pools(b)
		lease := scheduler.Key(models.IPLeaseKey("blue", "web", (&models.IPClaim{}).Wanted()))
		var mu sync.Mutex
		var told []scheduler.Key
		is := func(when string, want ...scheduler.Key) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(told, want) {
				t.Errorf("%s: told of %v, want %v", when, told, want)
			}
			told = nil
		}
		leases.Interest(lease, true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- leases.Watch(ctx, func(keys ...scheduler.Key) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, keys...)
			})
		}()
		synctest.Wait()
		is("what was before the watch", lease)
		if _, err := pools.Create(ctx, "ippool/blue", &models.IPPool{Network: "10.0.0.0/24"}); err != nil {
			t.Fatal(err)
		}
		is("a pool has come", lease)
		if err := pools.Delete(ctx, "ippool/blue", &models.IPPool{}, struct{}{}); err != nil {
			t.Fatal(err)
		}
		is("it has gone", lease)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		leases.Interest(lease, false)
		is("nobody watches")
	})
}
