//go:build soak

package docker_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

var (
	soak    = flag.Duration("soak", 5*time.Minute, "how long TestRow66_Soak churns")
	workers = flag.Int("workers", 30, "how many workers TestRow66_Soak has")
)

// TestRow66_Soak is the long form of TestRow19_Faults, with restarts of the engine.
func TestRow66_Soak(t *testing.T) {
	b := newProxied(t)
	c := newChurn(b)
	r := rand.New(rand.NewPCG(5, 6))
	b.play(c, *soak, *workers, func(ctx context.Context) {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(40 * time.Second):
			}
			switch r.IntN(3) {
			case 0:
				b.Restart()
			case 1:
				b.Kill()
				b.Up()
			case 2:
				b.Freeze()
				time.Sleep(5 * time.Second)
				b.Thaw()
			}
		}
	})
}
