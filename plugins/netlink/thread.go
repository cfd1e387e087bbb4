package netlink

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// onThread runs work on a thread that work may take to another network
// namespace, and takes the thread home again, also after an error: work may have
// left by then. A thread that cannot go home ends with its goroutine. It is never
// the main thread, whose namespace /proc/self/ns/net shows to everybody.
func onThread(home netns.NsHandle, work func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			defer runtime.UnlockOSThread()
			result <- onThread(home, work) // on another thread: we hold this one
			return
		}
		err := work()
		if back := netns.Set(home); back != nil {
			if !errors.Is(err, back) { // who may not enter may not go back either
				err = errors.Join(err, fmt.Errorf("take thread back to its namespace: %w", back))
			}
			result <- err
			return // still locked: the thread ends
		}
		runtime.UnlockOSThread()
		result <- err
	}()
	return <-result
}

// within runs work on a thread that is in the namespace. The caller is between
// enter and leave.
func (n *namespace) within(work func() error) error {
	return onThread(n.home, func() error {
		if err := netns.Set(n.handle); err != nil {
			return fmt.Errorf("enter namespace: %w", err)
		}
		return work()
	})
}
