package netlinktest

import "syscall"

// processAttr puts a child into a network namespace of its own and lets it end
// with the test.
func processAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
}
