package etcd

import (
	"context"
	"sync"

	"github.com/plumb-net/plumb/plugins/etcd/embedded"
)

// Early is an embedded store that starts while the agent is still being put together: both
// read what they have on disk, and neither needs the other for that. The plugin that gets it
// in its Config uses it for its first connection.
type Early struct {
	cancel context.CancelFunc
	done   chan struct{}
	server *embedded.Process // once done is closed; nil with err
	err    error
	taken  sync.Once
}

// StartEarly begins to start the embedded store of a configuration. With an external store
// there is nothing to start. Whoever calls it holds the lock of the state directory.
func StartEarly(c Config) *Early {
	ctx, cancel := context.WithCancel(context.Background())
	e := &Early{cancel: cancel, done: make(chan struct{})}
	if len(c.Endpoints) > 0 {
		e.taken.Do(cancel)
		return e
	}
	go func() {
		defer close(e.done)
		e.server, e.err = embedded.Launch(ctx, c.embedded())
	}()
	return e
}

// Close ends the store, unless a plugin has taken it.
func (e *Early) Close() {
	if e == nil {
		return
	}
	e.taken.Do(func() {
		e.cancel()
		if <-e.done; e.server != nil {
			e.server.Close()
		}
	})
}

// take is the store that was started early, once it is ready. ok is false if there is none, or
// it was taken before.
func (e *Early) take(ctx context.Context) (server *embedded.Process, ok bool, err error) {
	if e == nil {
		return nil, false, nil
	}
	e.taken.Do(func() {
		select {
		case <-e.done:
		case <-ctx.Done():
			e.cancel() // then it is killed, if it is not ready
			<-e.done
		}
		server, ok, err = e.server, true, e.err
	})
	return server, ok, err
}
