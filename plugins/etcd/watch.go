package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The watches on one stream.
const (
	idWatch     int64 = 1 // the identity key
	configWatch int64 = 2 // the intent
	fleetWatch  int64 = 3 // what is asked of the agent
)

// stream is one watch stream: it dies with the connection to one server and
// never comes back as another. Being opened before the list, it proves that
// the list came from the server that also sends the events.
type stream struct {
	grpc etcdserverpb.Watch_WatchClient
	ctx  context.Context
	// cut ends the stream and says why.
	cut  context.CancelCauseFunc
	tune tuning

	started time.Time
	// heard is when the last response came, as a duration since started.
	heard atomic.Int64
	// busy is set while a response is worked on: then silence is ours.
	busy atomic.Bool
	// poke asks for a sign of life at once.
	poke chan struct{}
	// exact: a sign of life tells up to which revision everything was sent.
	exact bool
	// parts are the fragments of a response that is not complete yet.
	parts []*mvccpb.Event
}

// batch is one response of the server, whole.
type batch struct {
	watch   int64
	rev     int64 // of the store when the response was sent
	cluster uint64
	created bool
	events  []*mvccpb.Event
}

// openStream opens a stream with a watch on the identity key, and returns when
// the server has confirmed it.
func openStream(ctx context.Context, cut context.CancelCauseFunc, l *link, t tuning, idKey string) (*stream, error) {
	// etcd refuses an expired token only in the answer to a watch, and 3.4 gives another reason
	// there. The request before it renews the token.
	if _, err := withTimeout(ctx, t, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return l.kv.Get(ctx, idKey, clientv3.WithCountOnly(), clientv3.WithSerializable())
	}); err != nil {
		return nil, err
	}
	grpc, err := l.watch.Watch(clientv3.WithRequireLeader(ctx))
	if err != nil {
		return nil, err
	}
	s := &stream{grpc: grpc, ctx: ctx, cut: cut, tune: t, started: time.Now(), poke: make(chan struct{}, 1)}
	late := time.AfterFunc(t.opTimeout, func() { cut(errTimeout) })
	defer late.Stop()
	if err := s.create(&etcdserverpb.WatchCreateRequest{Key: []byte(idKey), WatchId: idWatch}); err != nil {
		return nil, err
	}
	b, err := s.recv()
	if err != nil {
		return nil, err
	}
	if !b.created {
		return nil, errors.New("etcd: the watch was not confirmed")
	}
	return s, nil
}

// follow asks for what happens to the keys of a range from a revision on.
func (s *stream) follow(watch int64, from, end string, rev int64) error {
	return s.create(&etcdserverpb.WatchCreateRequest{
		Key:           []byte(from),
		RangeEnd:      []byte(end),
		StartRevision: rev,
		WatchId:       watch,
		Fragment:      true,
	})
}

// create asks for a watch. When the stream has ended, only receiving says why.
func (s *stream) create(r *etcdserverpb.WatchCreateRequest) error {
	err := s.grpc.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: r}})
	if errors.Is(err, io.EOF) {
		_, err = s.grpc.Recv()
	}
	return s.cause(err)
}

// recv returns the next whole response: what was fragmented for its size is
// put together again, because a revision must not be torn.
func (s *stream) recv() (batch, error) {
	for {
		s.busy.Store(false)
		r, err := s.grpc.Recv()
		s.busy.Store(true)
		if err != nil {
			return batch{}, s.cause(err)
		}
		s.alive()
		if r.Canceled {
			return batch{}, canceled(r)
		}
		if r.Fragment {
			s.parts = append(s.parts, r.Events...)
			continue
		}
		events := r.Events
		if s.parts != nil {
			events = append(s.parts, events...)
			s.parts = nil
		}
		return batch{r.WatchId, r.Header.Revision, r.Header.ClusterId, r.Created, events}, nil
	}
}

func canceled(r *etcdserverpb.WatchResponse) error {
	if r.CompactRevision != 0 {
		return fmt.Errorf("etcd: the watch fell behind: revision %d was compacted away", r.CompactRevision)
	}
	// The reason is the text of an error; made an error again, it is told
	// apart like those of requests.
	reason := r.CancelReason
	if _, desc, ok := strings.Cut(reason, " desc = "); ok {
		reason = desc
	}
	err := rpctypes.Error(status.Error(codes.Unknown, reason))
	return fmt.Errorf("etcd: the watch was canceled: %w", err)
}

// cause prefers the reason for which the stream was cut.
func (s *stream) cause(err error) error {
	if err != nil && s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return err
}

// alive notes a sign of life.
func (s *stream) alive() { s.heard.Store(int64(time.Since(s.started))) }

// silence is how long ago the server was last heard.
func (s *stream) silence() time.Duration {
	return time.Since(s.started) - time.Duration(s.heard.Load())
}

// pace asks for signs of life until the stream ends.
func (s *stream) pace() {
	t := time.NewTicker(s.tune.progressEvery)
	defer t.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-t.C:
		case <-s.poke:
		}
		err := s.grpc.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{
			ProgressRequest: &etcdserverpb.WatchProgressRequest{}}})
		if err != nil {
			return // recv gets the reason
		}
	}
}

// nudge asks for a sign of life soon; it never blocks.
func (s *stream) nudge() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}
