package mirror

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// Request does a request with the client of this turn.
func (f *Follower) Request(ctx context.Context, do func(ctx context.Context, c *rest.RESTClient) error) error {
	f.mu.Lock()
	c, err := f.client, f.err
	f.mu.Unlock()
	switch {
	case c == nil:
		return ErrNever
	case err != nil:
		return fmt.Errorf("the API server does not answer: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return do(ctx, c)
}

// IsGone reports whether an object that was to be written no longer exists.
func IsGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) }
