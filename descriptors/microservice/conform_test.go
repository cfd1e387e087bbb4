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
		conform(t, s, Microservices(s), s.services, "web", "db", service)
	})
	t.Run("container", func(t *testing.T) {
		s := newTracker()
		conform(t, s, Containers(s), s.containers, "docker:c1", "docker:c2", func(pid uint32) *models.Container {
			return &models.Container{Runtime: "docker", ContainerId: "c1", State: "running", Pid: pid}
		})
	})
}

// conform holds one kind to it; value makes one that differs by its process.
func conform[V interface {
	comparable
	proto.Message
}](t *testing.T, s *tracker, d scheduler.Descriptor[V, struct{}], all map[string]V, one, other string, value func(pid uint32) V) {
	var none V
	schedulertest.Conform(t, d, schedulertest.Spec[V, struct{}]{
		Samples: []schedulertest.Sample[V]{
			{Key: d.Prefix + scheduler.Key(one), Values: []V{value(1), value(2)}},
			{Key: d.Prefix + scheduler.Key(other), Values: []V{value(3)}},
		},
		Make:      func(_ testing.TB, k scheduler.Key, v V) V { set(s, all, k, v); return v },
		Remove:    func(_ testing.TB, k scheduler.Key) { set(s, all, k, none) },
		Clone:     proto.CloneOf[V],
		Identical: func(x, y V) bool { return proto.Equal(x, y) },
	})
}
