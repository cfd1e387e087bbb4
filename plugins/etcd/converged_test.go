package etcd

import (
	"testing"
	"testing/synctest"
	"time"
)

// Transactions are under way while they come and are settled. One that hangs does not hold
// up the statuses of all others.
func TestUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConvergence()
		is := func(want bool, when string) {
			t.Helper()
			if c.underWay() != want {
				t.Errorf("%s: %v", when, !want)
			}
		}
		is(false, "none has come")
		c.add(1, nil)
		c.add(2, nil)
		is(true, "two have come")
		time.Sleep(900 * time.Millisecond)
		c.done()
		time.Sleep(900 * time.Millisecond)
		is(true, "one was settled a moment ago")
		time.Sleep(200 * time.Millisecond)
		is(false, "the other hangs")
		c.done()
		is(true, "it was settled")
	})
}
