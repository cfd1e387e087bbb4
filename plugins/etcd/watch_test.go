package etcd

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/plumb-net/plumb/scheduler"
)

// script is a watch stream that says what it was given.
type script struct {
	grpc.ClientStream
	says []*etcdserverpb.WatchResponse
}

func (s *script) Send(*etcdserverpb.WatchRequest) error { return nil }

func (s *script) Recv() (*etcdserverpb.WatchResponse, error) {
	if len(s.says) == 0 {
		return nil, io.EOF
	}
	r := s.says[0]
	s.says = s.says[1:]
	if r.Header == nil {
		r.Header, r.WatchId = &etcdserverpb.ResponseHeader{Revision: 99}, configWatch
	}
	return r, nil
}

func event(key string, rev int64) *mvccpb.Event {
	return &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte(base + "config/" + key), Value: []byte(`"x"`), ModRevision: rev}}
}

func scripted(says ...*etcdserverpb.WatchResponse) *stream {
	ctx, cut := context.WithCancelCause(context.Background())
	return &stream{grpc: &script{says: says}, ctx: ctx, cut: cut, started: time.Now(), poke: make(chan struct{}, 1)}
}

// A revision that was cut into fragments comes out in one piece.
func TestFragmentsArePutTogether(t *testing.T) {
	w := scripted(
		&etcdserverpb.WatchResponse{Fragment: true, Events: []*mvccpb.Event{event("route/a", 7), event("route/b", 7)}},
		&etcdserverpb.WatchResponse{Fragment: true, Events: []*mvccpb.Event{event("route/c", 7)}},
		&etcdserverpb.WatchResponse{Events: []*mvccpb.Event{event("route/d", 7), event("route/a", 8)}},
		&etcdserverpb.WatchResponse{Events: []*mvccpb.Event{event("route/b", 9)}},
	)
	rec := newRecorder()
	s := newSource(config(t, "http://127.0.0.1:1"), openMemory(t.TempDir()), decodeText, rec)
	s.prefix, s.view = base+"config/", view{}
	for {
		b, err := w.recv()
		if err != nil {
			break
		}
		if err := s.events(b, true); err != nil {
			t.Fatal(err)
		}
	}
	want := "4 keys at revision 7, not through the agent: route/a=x route/b=x route/c=x route/d=x\nput route/a, not through the agent: route/a=x\nput route/b, not through the agent: route/b=x\n"
	if got := story(rec.since(0)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// lookout is a Submitter that looks at something with every transaction.
type lookout struct {
	*recorder
	look func()
}

func (l lookout) Submit(t scheduler.Txn) *scheduler.Handle {
	l.look()
	return l.recorder.Submit(t)
}

// The server keeps the events of a watch back until it has told that the watch is there, and
// signs of life pass them: until then those say nothing.
func TestASignOfLifePassesEventsOfANewWatch(t *testing.T) {
	alive := func(rev int64) *etcdserverpb.WatchResponse {
		return &etcdserverpb.WatchResponse{Header: &etcdserverpb.ResponseHeader{Revision: rev}, WatchId: -1}
	}
	w := scripted(alive(7),
		&etcdserverpb.WatchResponse{Header: &etcdserverpb.ResponseHeader{Revision: 5}, WatchId: configWatch, Created: true},
		&etcdserverpb.WatchResponse{Events: []*mvccpb.Event{event("route/a", 7)}},
		alive(9))
	w.exact = true
	var s *source
	rec := lookout{newRecorder(), func() {
		if at := s.reached.get(); at >= 7 {
			t.Errorf("revision %d was told to be reached before 7 was submitted", at)
		}
	}}
	s = newSource(config(t, "http://127.0.0.1:1"), openMemory(t.TempDir()), decodeText, rec)
	s.prefix, s.view = base+"config/", view{}
	s.noteRevision(5, 0)
	s.reached.set(5)
	if err := s.follow(t.Context(), nil, w, &snapshot{rev: 5}); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if at := s.reached.get(); at != 9 || rec.count() != 1 {
		t.Errorf("reached %d, %d transactions", at, rec.count())
	}
}

func TestCanceledWatchesSayWhy(t *testing.T) {
	for want, r := range map[string]*etcdserverpb.WatchResponse{
		"compacted away":     {Canceled: true, CompactRevision: 12},
		"invalid auth token": {Canceled: true, CancelReason: "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token"},
		"no leader":          {Canceled: true, CancelReason: "etcdserver: no leader"},
	} {
		_, err := scripted(r).recv()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	w := scripted()
	w.cut(errStalled)
	if _, err := w.recv(); !errors.Is(err, errStalled) {
		t.Errorf("a cut stream says %v", err)
	}
}

func TestVersionsWithExactSignsOfLife(t *testing.T) {
	for v, want := range map[string]bool{
		"3.4.23": false, "3.4.33": false, "3.5.7": false, "3.5.8": true, "3.5.21": true, "3.6.0": true, "3.7.3": true, "4.0.0": true, "": false, "x": false,
	} {
		if got := atLeast358(v); got != want {
			t.Errorf("%q: %v", v, got)
		}
	}
}
