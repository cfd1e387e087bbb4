package ipam

import (
	"context"
	"slices"
	"sync"

	"github.com/plumb-net/plumb/scheduler"
)

// news are keys to tell the scheduler of.
type news struct {
	mu   *sync.Mutex
	keys map[scheduler.Key]bool
	some chan struct{} // holds one if there are keys
}

func makeNews() news {
	return news{mu: &sync.Mutex{}, keys: map[scheduler.Key]bool{}, some: make(chan struct{}, 1)}
}

func (n news) add(keys ...scheduler.Key) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range keys {
		n.keys[k] = true
	}
	if len(n.keys) > 0 {
		select {
		case n.some <- struct{}{}:
		default:
		}
	}
}

func (n news) take() []scheduler.Key {
	n.mu.Lock()
	defer n.mu.Unlock()
	keys := make([]scheduler.Key, 0, len(n.keys))
	for k := range n.keys {
		keys = append(keys, k)
	}
	clear(n.keys)
	slices.Sort(keys)
	return keys
}

// watch is the Watch of a kind.
func (n news) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-n.some:
			if keys := n.take(); len(keys) > 0 {
				notify(keys...)
			}
		}
	}
}
