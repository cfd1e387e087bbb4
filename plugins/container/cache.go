package container

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
)

// ErrAmbiguous: a word fits several containers.
var ErrAmbiguous = errors.New("fits several containers")

// Container returns the container that a word names: a full id, <runtime>:<id>,
// an exact name, or the beginning of an id if no other one begins so. An
// ErrNotFound is sure only if the error does not wrap ErrUnknown as well.
func (t *Tracker) Container(word string) (*models.Container, error) {
	p := t.snapshot.Load()
	c, err := p.find(word)
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(c), nil
}

// Labelled returns the containers, running or not, that bear a container label,
// with that value unless it is "", sorted by key.
func (t *Tracker) Labelled(label, value string) ([]*models.Container, error) {
	p := t.snapshot.Load()
	var all []*models.Container
	for _, id := range p.order {
		c := p.containers[id]
		if v, ok := c.Labels[label]; ok && (value == "" || v == value) {
			all = append(all, proto.CloneOf(c))
		}
	}
	return all, p.unknown
}

// find looks a word up. Names and ids are not kept in tables of their own: what
// is looked up is what the snapshot shows, so no alias outlives its owner.
func (p *snapshot) find(word string) (*models.Container, error) {
	if c := p.containers[word]; c != nil {
		return c, nil
	}
	var exact, begin []*models.Container
	for _, key := range p.order {
		switch c := p.containers[key]; {
		case c.ContainerId == word || c.Name == word || c.Runtime+":"+c.Name == word:
			exact = append(exact, c)
		case strings.HasPrefix(c.ContainerId, word) || strings.HasPrefix(key, word) && strings.Contains(word, ":"):
			begin = append(begin, c)
		}
	}
	found := exact
	if len(found) == 0 && word != "" {
		found = begin
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		err := fmt.Errorf("%q: %w", word, ErrNotFound)
		if p.unknown != nil {
			err = fmt.Errorf("%w; %w", err, p.unknown)
		}
		return nil, err
	}
	return nil, fmt.Errorf("%q %w: %s and %s", word, ErrAmbiguous, title(found[0]), title(found[1]))
}

func title(c *models.Container) string {
	return fmt.Sprintf("%s:%.12s (%s)", c.Runtime, c.ContainerId, c.Name)
}

// WaitFor blocks until what a word names is as wanted, and returns it; nil
// stands for none. It returns at once if that is so now, and the error of ctx
// if it ends before. Where it cannot be told whether the container is there,
// want is not asked.
func (t *Tracker) WaitFor(ctx context.Context, word string, want func(*models.Container) bool) (*models.Container, error) {
	var c *models.Container
	var err error
	over := t.moved.until(ctx, func() bool {
		c, err = t.Container(word)
		return errors.Is(err, ErrAmbiguous) || !errors.Is(err, ErrUnknown) && want(c)
	})
	switch {
	case over != nil:
		return nil, over
	case errors.Is(err, ErrAmbiguous):
		return nil, err
	}
	return c, nil
}

// Since returns what a word names as it was at the time or later: it has the
// runtime asked if what is known is older, and blocks until the answer is in or
// ctx ends. nil stands for none.
func (t *Tracker) Since(ctx context.Context, word string, after time.Time) (*models.Container, error) {
	for asked := false; ; asked = true {
		news := t.ages.news.wait()
		listed := t.ages.listedSince(t.sources, after) // the snapshot is no older than this
		c, err := t.Container(word)
		switch {
		case errors.Is(err, ErrAmbiguous):
			return nil, err
		case err == nil && t.ages.seenSince(c, after):
			if c, err = t.Container(word); err == nil { // it may have been older
				return c, nil
			}
			continue
		case errors.Is(err, ErrNotFound) && !errors.Is(err, ErrUnknown) && listed:
			return nil, nil
		}
		if !asked {
			t.ask(ctx, c)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-news:
		}
	}
}

// WaitSynced blocks until every runtime was known once, or was not there.
func (t *Tracker) WaitSynced(ctx context.Context) error { return t.moved.until(ctx, t.Synced) }

// ask has a container inspected, or all runtimes listed if it is nil.
func (t *Tracker) ask(ctx context.Context, c *models.Container) {
	t.post(ctx, func() {
		for _, s := range t.sources {
			switch {
			case c == nil && !s.nextList.IsZero():
				s.relistAt(time.Now(), "asked")
			case c != nil:
				if id, ours := unscope(s.rt.Name(), c.Runtime, c.ContainerId); ours && s.entries[id] != nil {
					s.want(id)
				}
			}
		}
	})
}

// signal wakes all who wait, once each time that it is given.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that is closed by the next give.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// until asks done, now and after each give, until it is so or ctx ends.
func (s *signal) until(ctx context.Context, done func() bool) error {
	for {
		news := s.wait()
		if done() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-news:
		}
	}
}

func (s *signal) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
