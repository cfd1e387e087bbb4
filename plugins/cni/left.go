package cni

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/wire"
)

// ErrLeaving: a DEL was left for the agent and is about to be done.
var ErrLeaving = errors.New("the container is being removed")

// Leaving says why nothing may be made for a key any more: the DEL of the attachment
// that wants it is in the queue, because the agent was stopped or could not be
// reached. What plumb-cni has removed meanwhile must not come again until that is
// done. A key that others want as well is theirs. Of a pod whose interfaces operators
// want it is the one with the name that was removed.
func (q Queue) Leaving(store *Store, key string, v *models.Interface) error {
	pod := v.GetNamespace().GetPod()
	wanting := store.matching(func(a Attachment) bool {
		return slices.Contains(a.Wants, key) || pod != "" && slices.Contains(a.pods(), pod) && a.Key.IfName == v.EffectiveHostName(key)
	})
	var leaving string
	for _, a := range wanting {
		l, left := wire.LeftOf(q.Dir, a.Key.Network, a.Key.ContainerID, a.Key.IfName)
		if !left || a.Since > l.Queued {
			return nil
		}
		leaving = a.Key.String()
	}
	if leaving == "" {
		return nil
	}
	return fmt.Errorf("%w: a DEL of %s was left while the agent could not be reached", ErrLeaving, leaving)
}

// Watch calls came whenever something was left, until ctx ends.
func (q Queue) Watch(ctx context.Context, came func()) error {
	dir := wire.QueueDir(q.Dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("watch what is left for the agent: %w", err)
	}
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watch what is left for the agent: %w", err)
	}
	notify := os.NewFile(uintptr(fd), "inotify")
	defer notify.Close()
	if _, err := syscall.InotifyAddWatch(fd, dir, syscall.IN_MOVED_TO|syscall.IN_ONLYDIR); err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	defer context.AfterFunc(ctx, func() { _ = notify.SetReadDeadline(time.Unix(1, 0)) })()
	came() // it may have come before the watch
	buf := make([]byte, 64<<10)
	for {
		if _, err := notify.Read(buf); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch %s: %w", dir, err)
		}
		came()
	}
}
