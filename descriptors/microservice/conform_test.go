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
	mu       sync.Mutex
	services map[string]*models.Microservice
	wakers   map[chan []string]bool
}

func (s *tracker) Microservices() (map[string]*models.Microservice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.services), nil
}

func (s *tracker) Containers() (map[string]*models.Container, error) { return nil, nil }
func (s *tracker) Synced() bool                                      { return true }

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

func (s *tracker) set(k scheduler.Key, v *models.Microservice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	label := strings.TrimPrefix(string(k), "microservice/")
	if s.services[label] = v; v == nil {
		delete(s.services, label)
	}
	for wake := range s.wakers {
		wake <- []string{"container/docker:c1", string(k)}
	}
}

// TestConform holds the kinds to the contract of descriptors.
func TestConform(t *testing.T) {
	s := &tracker{services: map[string]*models.Microservice{}, wakers: map[chan []string]bool{}}
	schedulertest.Conform(t, Microservices(s), schedulertest.Spec[*models.Microservice, struct{}]{
		Samples: []schedulertest.Sample[*models.Microservice]{
			{Key: "microservice/web", Values: []*models.Microservice{service(1), service(2)}},
			{Key: "microservice/db", Values: []*models.Microservice{service(3)}},
		},
		Make: func(_ testing.TB, k scheduler.Key, v *models.Microservice) *models.Microservice {
			s.set(k, v)
			return v
		},
		Remove:    func(_ testing.TB, k scheduler.Key) { s.set(k, nil) },
		Clone:     proto.CloneOf[*models.Microservice],
		Identical: func(x, y *models.Microservice) bool { return proto.Equal(x, y) },
	})
}
