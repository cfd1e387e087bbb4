package etcd

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/etcd/dial"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

// ErrLabelTaken matches every [LabelTakenError].
var ErrLabelTaken = errors.New("the label is taken")

// LabelTakenError says that another live agent serves the label.
type LabelTakenError struct {
	Label  string
	Holder record.Presence
	// Expires is when the holder's lease ends if it is dead after all; zero
	// if that could not be told.
	Expires time.Duration
}

func (e *LabelTakenError) Error() string {
	s := fmt.Sprintf("label %s is served by another agent: host %s, pid %d, state directory %s, started %s",
		e.Label, e.Holder.Host, e.Holder.PID, e.Holder.UUID, e.Holder.StartedAt.Format(time.RFC3339))
	if e.Expires > 0 {
		s += fmt.Sprintf("; if it is dead, its claim ends in %s", e.Expires.Round(time.Second))
	}
	return s + "; give one of the two another --label"
}

// Is makes errors.Is(err, ErrLabelTaken) true.
func (e *LabelTakenError) Is(target error) bool { return target == ErrLabelTaken }

// Why a session ended, besides errors of the store.
var (
	errStalled    = errors.New("the watch gave no sign of life")
	errLostEvents = errors.New("the watch lost changes that are in the store")
	errTimeout    = errors.New("the watch did not start in time")
	errAccept     = errors.New("the operator accepts the store")
	errOverride   = errors.New("other values count")
	errOtherStore = errors.New("another store answers now")
	errNotHolder  = errors.New("this agent does not hold the label")
	errRelist     = errors.New("the source listed the store anew")
	errNoStore    = errors.New("not connected yet")
)

// errSlowStart stands while the embedded store takes long to start.
var errSlowStart = errors.New("the embedded etcd is still reading its data; all that is there stays, and containers are attached as before")

// embeddedError says why the embedded store does not run, and the way out.
type embeddedError struct{ err error }

func (e *embeddedError) Error() string {
	return fmt.Sprintf("the embedded etcd does not run: %v; all that is there stays, and containers are attached as before;"+
		` it is started again and again, and if its data is damaged, "plumb-agent recover-store" puts it aside`, e.err)
}

// Is makes it a store that is down.
func (e *embeddedError) Is(target error) bool { return target == errNoStore }

// isCompacted reports whether the asked revision is no longer kept.
func isCompacted(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) }

// isTooLarge reports whether the store refused a request for its size.
func isTooLarge(err error) bool {
	if said := rpctypes.Error(err); errors.Is(said, rpctypes.ErrRequestTooLarge) || errors.Is(said, rpctypes.ErrTooManyOps) {
		return true
	}
	// gRPC's own bound, of the server or of a proxy before it.
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "larger than max")
}

// isDown reports whether the store could not be asked, as opposed to having
// refused.
func isDown(err error) bool { return errors.Is(err, errNoStore) || dial.Down(err) }

// storeError makes an error for users of the store port.
func (c Config) storeError(what string, err error) error {
	if isDown(err) || dial.Stranger(err) {
		return fmt.Errorf("%s: %w (%s)", what, models.ErrStoreDown, c.say(err))
	}
	return fmt.Errorf("%s: %s", what, c.say(err))
}

// say says an error of the store in our words: of an external one that does not answer
// where that is, and what it is like there.
func (c Config) say(err error) string {
	switch {
	case len(c.Endpoints) == 0:
		return dial.Plain(err)
	case errors.Is(err, errNoStore):
		return "not connected yet to " + c.cluster().Where()
	}
	return c.cluster().Say(err)
}
