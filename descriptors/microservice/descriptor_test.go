package microservice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is a tracker that knows what it is told.
type source struct {
	mu         sync.Mutex
	services   map[string]*models.Microservice
	containers map[string]*models.Container
	err        error
	synced     bool
	watchers   []chan []string
}

func (s *source) Microservices() (map[string]*models.Microservice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.services, s.err
}

func (s *source) Containers() (map[string]*models.Container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.containers, s.err
}

func (s *source) Synced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

func (s *source) Watch(ctx context.Context, f func(keys ...string)) error {
	changed := make(chan []string)
	s.mu.Lock()
	s.watchers = append(s.watchers, changed)
	s.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case keys := <-changed:
			f(keys...)
		}
	}
}

// tell waits for a number of watchers and tells each of them.
func (s *source) tell(watchers int, keys ...string) {
	var told []chan []string
	for len(told) < watchers {
		time.Sleep(time.Millisecond)
		s.mu.Lock()
		told = slices.Clone(s.watchers)
		s.mu.Unlock()
	}
	for _, changed := range told {
		changed <- keys
	}
}

var errDown = errors.New("docker does not answer")

func service(pid uint32) *models.Microservice {
	return &models.Microservice{ContainerId: "c1", Pid: pid, Netns: 4026531840, StartedAt: "2026-01-01T00:00:00Z"}
}

func TestRetrieve(t *testing.T) {
	services := map[string]*models.Microservice{"web": service(1), "a/b": service(2), "gone": nil}
	all := scope[*models.Microservice]{All: true, Known: []scheduler.Known[*models.Microservice, struct{}]{
		{Key: "microservice/gone", InPlace: true}, {Key: "microservice/lost", InPlace: true}, {Key: "microservice/web", InPlace: true},
	}}
	some := scope[*models.Microservice]{Keys: []scheduler.Key{"microservice/gone", "microservice/lost", "microservice/web"}}
	for _, c := range []struct {
		name   string
		scope  scope[*models.Microservice]
		err    error
		synced bool
		want   string
	}{
		{"all", all, nil, true, "microservice/a%2Fb 2, microservice/web 1"},
		{"some", some, nil, true, "microservice/web 1"},
		{"all, at first", all, errDown, false, " unknown"},
		{"some, at first", some, errDown, false, "microservice/lost unknown, microservice/web 1"},
		{"all, down", all, errDown, true, "microservice/a%2Fb 2, microservice/lost unknown, microservice/web 1"},
		{"some, down", some, errDown, true, "microservice/lost unknown, microservice/web 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Microservices(&source{services: services, err: c.err, synced: c.synced})
			var got []string
			for f, err := range d.Retrieve(t.Context(), c.scope) {
				switch {
				case errors.Is(err, errDown):
					got = append(got, string(f.Key)+" unknown")
				case err != nil:
					t.Error(err)
				default:
					got = append(got, fmt.Sprintf("%s %d", f.Key, f.Value.Pid))
				}
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("read %s\nwant %s", text, c.want)
			}
			for range d.Retrieve(t.Context(), c.scope) {
				break // a reader may stop early
			}
		})
	}
}

// TestEqual: another life of the same container is another value.
func TestEqual(t *testing.T) {
	d := Microservices(&source{})
	base := service(1)
	if !d.Equal("microservice/web", base, proto.CloneOf(base)) {
		t.Error("a copy is not equal")
	}
	for name, change := range map[string]func(v *models.Microservice){
		"container": func(v *models.Microservice) { v.ContainerId = "c2" },
		"pid":       func(v *models.Microservice) { v.Pid++ },
		"namespace": func(v *models.Microservice) { v.Netns++ },
		"start":     func(v *models.Microservice) { v.StartedAt = "2026-01-01T00:00:01Z" },
		"refusal":   func(v *models.Microservice) { v.Refused = "host network mode" },
	} {
		v := proto.CloneOf(base)
		change(v)
		if d.Equal("microservice/web", base, v) {
			t.Errorf("%s: a change is taken for the same", name)
		}
	}
}

func TestUsable(t *testing.T) {
	refused := service(1)
	refused.Refused = "host network mode"
	if !Usable(service(1)) || Usable(refused) || Usable(&models.Microservice{Pid: 1}) || Usable(nil) {
		t.Error("microservices")
	}
	if !UsableContainer(&models.Container{Netns: 1}) || UsableContainer(&models.Container{}) ||
		UsableContainer(&models.Container{Netns: 1, Refused: "no"}) || UsableContainer(nil) {
		t.Error("containers")
	}
}

// TestWatch: each kind hears of its own keys, and both of changes without keys.
func TestWatch(t *testing.T) {
	s := &source{}
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan []scheduler.Key, 10)
	done := make(chan error)
	go func() {
		done <- Containers(s).Watch(ctx, func(keys ...scheduler.Key) { heard <- keys })
	}()
	s.tell(1, "microservice/web")
	s.tell(1, "container/docker:c1", "microservice/web")
	s.tell(1)
	if keys := <-heard; !slices.Equal(keys, []scheduler.Key{"container/docker:c1"}) {
		t.Errorf("heard %v", keys)
	}
	if keys := <-heard; len(keys) != 0 {
		t.Errorf("heard %v, want no keys", keys)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestInScheduler follows a container through a scheduler: it comes, the
// runtime stops answering, it dies, the runtime is back.
func TestInScheduler(t *testing.T) {
	s := &source{err: errDown}
	sched := scheduler.New(scheduler.Options{Sources: []string{"test"}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- sched.Run(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	if _, err := scheduler.Register(sched, Microservices(s)); err != nil {
		t.Fatal(err)
	}
	if _, err := scheduler.Register(sched, Containers(s)); err != nil {
		t.Fatal(err)
	}
	step := func(want scheduler.State, change func(), keys ...string) {
		t.Helper()
		s.mu.Lock()
		change()
		s.mu.Unlock()
		s.tell(2, keys...) // one for each kind
		awaitState(t, sched, "microservice/web", want)
	}
	step(scheduler.Observed, func() {
		s.services, s.err, s.synced = map[string]*models.Microservice{"web": service(1)}, nil, true
	})
	step(scheduler.Observed, func() { s.err = errDown })
	step(scheduler.Unknown, func() { s.services = nil }, "microservice/web")
	step(scheduler.Observed, func() { s.services, s.err = map[string]*models.Microservice{"web": service(2)}, nil })
	step(scheduler.Absent, func() { s.services, s.err = map[string]*models.Microservice{"web": nil}, errDown }, "microservice/web")
}

func awaitState(t *testing.T, sched *scheduler.Scheduler, key scheduler.Key, want scheduler.State) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		status, err := sched.Get(t.Context(), key)
		state := status.State
		if errors.Is(err, scheduler.ErrUnknownKey) {
			state = scheduler.Absent
		}
		if state == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s is %v (%v), want %v", key, state, err, want)
		}
	}
}
