package microservice

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// tracker is a source whose containers come and go.
type tracker struct {
	mu         sync.Mutex
	services   map[string]*models.Microservice
	containers map[string]*models.Container
	wakers     map[chan []string]bool
}

func (s *tracker) Microservices() (map[string]*models.Microservice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.services), nil
}

func (s *tracker) Containers() (map[string]*models.Container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.containers), nil
}

func (s *tracker) Synced() bool { return true }

// Watch tells at once that anything may have changed, as trackers do.
func (s *tracker) Watch(ctx context.Context, f func(keys ...string)) error {
	wake := make(chan []string, 100)
	s.mu.Lock()
	s.wakers[wake] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.wakers, wake)
	}()
	f()
	for {
		select {
		case keys := <-wake:
			f(keys...)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// set makes v what is told of a key, or has it go if v is nil, and tells of that.
func set[V comparable](s *tracker, all map[string]V, k scheduler.Key, v V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, name, _ := strings.Cut(string(k), "/")
	var none V
	if all[name] = v; v == none {
		delete(all, name)
	}
	for wake := range s.wakers {
		wake <- []string{"container/docker:other", "microservice/other", string(k)}
	}
}

func newTracker() *tracker {
	return &tracker{services: map[string]*models.Microservice{}, containers: map[string]*models.Container{}, wakers: map[chan []string]bool{}}
}

// TestConform holds the kinds to the contract of descriptors.
func TestConform(t *testing.T) {
	t.Run("microservice", func(t *testing.T) {
		s := newTracker()
		schedulertest.Conform(t, Microservices(s), schedulertest.Spec[*models.Microservice, struct{}]{
			Samples: []schedulertest.Sample[*models.Microservice]{
				{Key: "microservice/web", Values: []*models.Microservice{service(1), service(2)}},
				{Key: "microservice/db", Values: []*models.Microservice{service(3)}},
			},
			Make: func(_ testing.TB, k scheduler.Key, v *models.Microservice) *models.Microservice {
				set(s, s.services, k, v)
				return v
			},
			Remove:    func(_ testing.TB, k scheduler.Key) { set(s, s.services, k, nil) },
			Clone:     proto.CloneOf[*models.Microservice],
			Identical: func(x, y *models.Microservice) bool { return proto.Equal(x, y) },
		})
	})
	t.Run("container", func(t *testing.T) {
		s := newTracker()
		container := func(pid uint32) *models.Container {
			return &models.Container{Runtime: "docker", ContainerId: "c1", State: "running", Pid: pid}
		}
		schedulertest.Conform(t, Containers(s), schedulertest.Spec[*models.Container, struct{}]{
			Samples: []schedulertest.Sample[*models.Container]{
				{Key: "container/docker:c1", Values: []*models.Container{container(1), container(2)}},
				{Key: "container/docker:c2", Values: []*models.Container{container(3)}},
			},
			Make: func(_ testing.TB, k scheduler.Key, v *models.Container) *models.Container {
				set(s, s.containers, k, v)
				return v
			},
			Remove:    func(_ testing.TB, k scheduler.Key) { set(s, s.containers, k, nil) },
			Clone:     proto.CloneOf[*models.Container],
			Identical: func(x, y *models.Container) bool { return proto.Equal(x, y) },
		})
	})
}
