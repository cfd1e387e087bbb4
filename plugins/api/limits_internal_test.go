package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"

	"github.com/plumb-net/plumb/plugins/access"
	"github.com/plumb-net/plumb/plugins/api/apiv1/apiv1connect"
)

// endless is a body of so many bytes.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	n := min(len(p), e.left)
	if e.left -= n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// TestLimits: many requests at the same time, each as large as it may be, use no more than the
// limits, in bytes and in calls; what is refused says so, and nothing is counted afterwards.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		call         string
		role         access.Role
		size         int
		refused      bool // some, for the sum
		mostTogether int32
	}{
		{"Apply", access.Operator, 50 << 20, true, maxLargeOf},
		{"Plan", access.Viewer, 7 << 20, false, maxLargeOf},
		{"Get", access.Viewer, 3 << 20, true, 24},
		{"Apply", access.Admin, 50 << 20, true, 24},
		{"List", access.Viewer, 100, false, maxLargeOf},
	} {
		t.Run(c.call+" "+c.role.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimits()
				var inside, most, refused atomic.Int32
				held := make(chan struct{})
				h := l.limited(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					most.Store(max(most.Load(), inside.Add(1)))
					defer inside.Add(-1)
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						if connect.CodeOf(err) != connect.CodeResourceExhausted {
							t.Error(err)
						}
						refused.Add(1)
					}
					<-held
				}))
				var all sync.WaitGroup
				for range 24 {
					all.Go(func() {
						r := httptest.NewRequest(http.MethodPost, "/"+apiv1connect.AgentName+"/"+c.call, &endless{c.size})
						ctx := context.WithValue(t.Context(), callerKey{}, caller{who: "vera", name: "vera", role: c.role})
						h.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
					})
				}
				synctest.Wait()
				if l.bytes > maxBodies || c.role != access.Admin && l.bytes > maxBodiesOf {
					t.Errorf("%d MiB of bodies at the same time", l.bytes>>20)
				}
				close(held)
				all.Wait()
				if l.bytes != 0 || l.calls != 0 || len(l.of) != 0 {
					t.Errorf("left: %+v", l)
				}
				if most.Load() > c.mostTogether || (refused.Load() > 0) != c.refused {
					t.Errorf("%d together, %d refused", most.Load(), refused.Load())
				}
			})
		})
	}
}

// TestRequestSizes: a request that is larger than its call may need is refused.
func TestRequestSizes(t *testing.T) {
	for call, most := range map[string]int{"Get": maxUsual, "Plan": 8 << 20, "Why": maxUsual} {
		h := newLimits().limited(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			var refused *connect.Error
			if !errors.As(err, &refused) || n > int64(most)+maxFrame {
				t.Errorf("%s: %d bytes were read: %v", call, n, err)
			}
		}))
		r := httptest.NewRequest(http.MethodPost, "/"+apiv1connect.AgentName+"/"+call, &endless{1 << 30})
		ctx := context.WithValue(t.Context(), callerKey{}, caller{who: "vera", name: "vera", role: access.Viewer})
		h.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
	}
}

// TestLargeCallsAreKnown: every call that the limits name exists.
func TestLargeCallsAreKnown(t *testing.T) {
	known := map[string]bool{}
	for path := range needed() {
		known[shortCall(path)] = true
	}
	for call := range large {
		if !known[call] && call != uiPath+"parse" {
			t.Errorf("large: no call %s", call)
		}
	}
	for call := range larger {
		if !known[call] && call != uiPath+"parse" {
			t.Errorf("larger: no call %s", call)
		}
	}
}
