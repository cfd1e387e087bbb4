package owned_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/scheduler"
)

// TestPollSaysNothingOfNothing: to notify without keys would have all of the kind read.
func TestPollSaysNothingOfNothing(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ticks := make(chan time.Time)
	go func() {
		ticks <- time.Time{}
		ticks <- time.Time{}
		stop()
	}()
	asked, told := 0, [][]scheduler.Key(nil)
	err := owned.Poll(ctx, ticks, 0, func(context.Context) []scheduler.Key {
		if asked++; asked == 2 {
			return []scheduler.Key{"a/1"}
		}
		return nil
	}, func(keys ...scheduler.Key) { told = append(told, keys) })
	if err == nil || len(told) != 1 || !slices.Equal(told[0], []scheduler.Key{"a/1"}) {
		t.Errorf("told %v, error %v", told, err)
	}
}
