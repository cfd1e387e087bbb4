package api

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

const (
	// maxWatchers is how many calls may follow statuses at a time.
	maxWatchers = 1024
	// toldPerSecond is how many messages those who watch are sent in a second, all together.
	// Who has to wait for his turn gets what came in between in one message, the last
	// state of each key: so a crowd takes a bounded share of the processors. They are not
	// sent all at once either, but a few at a time.
	toldPerSecond, toldAtOnce = 1000, 8
	// maxEncoded is how many encoded statuses are kept for others who watch, and
	// maxEncodedSize how large one may be for that, in bytes.
	maxEncoded, maxEncodedSize = 512, 16 << 10
)

// follower is a watcher that counts.
func (s *Server) follower(prefixes []scheduler.Key) (Watcher, error) {
	if s.watchers.Add(1) > maxWatchers {
		s.watchers.Add(-1)
		return nil, connect.NewError(connect.CodeResourceExhausted, errTooMany)
	}
	return counted{s.Scheduler.Watch(prefixes...), &s.watchers}, nil
}

var errTooMany = fmt.Errorf("%d calls follow statuses already, which is the limit; end some `get -w` or `wait`", maxWatchers)

type counted struct {
	Watcher
	n *atomic.Int32
}

func (c counted) Stop() {
	c.Watcher.Stop()
	c.n.Add(-1)
}

// Watch implements the service. A client that does not read blocks this call
// and nothing else: the scheduler keeps only the last state of each key for it.
func (s *Server) Watch(ctx context.Context, r *apiv1.WatchRequest, out *connect.ServerStream[apiv1.WatchResponse]) error {
	prefixes, err := s.prefixes(ctx, r.Targets)
	if err != nil {
		return err
	}
	keep, err := stateFilter(r.States)
	if err != nil {
		return err
	}
	w, err := s.follower(prefixes)
	if err != nil {
		return err
	}
	defer w.Stop()
	encode := s.encoded.encoder(r.NoValues)
	for told := false; ; {
		changes, inSync, err := w.Next(ctx)
		if err != nil {
			return fail(err)
		}
		msg := &apiv1.WatchResponse{InSync: inSync}
		for _, c := range changes {
			derived := len(prefixes) == 0 && c.Base != "" // comes with its base
			if keep(c) && !derived {
				msg.Changes = append(msg.Changes, encode(c))
			}
		}
		if len(msg.Changes) == 0 && (told || !inSync) {
			continue
		}
		told = told || inSync
		if err := s.pace.Wait(ctx); err != nil {
			return fail(err)
		}
		if err := out.Send(msg); err != nil {
			return err
		}
	}
}

// encodings are the statuses that were encoded last, so that what many watch is encoded
// once. What they hold is read by several goroutines, and changed by none.
type encodings struct {
	mu    sync.Mutex // guards what follows
	last  map[form]encoding
	order []form // of last, the oldest first
}

// form is what is encoded of a key.
type form struct {
	key      scheduler.Key
	noValues bool
}

// encoder is how a request wants statuses, as [encoder], with what others were told before.
func (e *encodings) encoder(noValues bool) func(scheduler.Status) *apiv1.KeyStatus {
	encode := encoding.keyStatus
	if noValues {
		encode = func(_ encoding, s scheduler.Status) *apiv1.KeyStatus { return withoutValues(s) }
	}
	var times sameTime
	return func(s scheduler.Status) *apiv1.KeyStatus {
		f := form{s.Key, noValues}
		e.mu.Lock()
		known, ok := e.last[f]
		e.mu.Unlock()
		if ok && known.of.Revision == s.Revision && reflect.DeepEqual(known.of, s) {
			return known.msg
		}
		msg := encode(known, s)
		times.share(msg)
		if proto.Size(msg) <= maxEncodedSize {
			e.keep(f, encoding{s, msg})
		}
		return msg
	}
}

func (e *encodings) keep(f form, c encoding) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last == nil {
		e.last = map[form]encoding{}
	}
	if _, known := e.last[f]; !known {
		if len(e.order) == maxEncoded {
			delete(e.last, e.order[0])
			e.order = e.order[1:]
		}
		e.order = append(e.order, f)
	}
	e.last[f] = c
}
