package netlink

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// onThread runs work on a thread that enter has taken to another network
// namespace, and takes the thread home again. A thread that cannot go home ends
// with its goroutine. It is never the main thread, whose namespace
// /proc/self/ns/net shows to everybody.
func onThread(home int, enter, work func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			defer runtime.UnlockOSThread()
			result <- onThread(home, enter, work) // on another thread: we hold this one
			return
		}
		if err := enter(); err != nil {
			runtime.UnlockOSThread()
			result <- err
			return
		}
		err := work()
		if back := unix.Setns(home, unix.CLONE_NEWNET); back != nil {
			result <- errors.Join(err, fmt.Errorf("take thread back to its namespace: %w", back))
			return // still locked: the thread ends
		}
		runtime.UnlockOSThread()
		result <- err
	}()
	return <-result
}

// inNamespace runs work in the namespace of an open file.
func inNamespace(home, fd int, work func() error) error {
	return onThread(home, func() error {
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter namespace: %w", err)
		}
		return nil
	}, work)
}
