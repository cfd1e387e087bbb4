package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Process describes a process for people who wait for its answer: its name, what it is doing, and
// what to do about that if it cannot answer.
func Process(pid int) string {
	name, state, err := statOf(pid)
	switch {
	case pid <= 0:
		return "its process is not known"
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("process %d has ended", pid)
	case err != nil:
		return fmt.Sprintf("process %d cannot be read: %v", pid, err)
	}
	who := fmt.Sprintf("process %d (%s)", pid, name)
	switch state {
	case 'T':
		return fmt.Sprintf("%s is stopped; resume it with: kill -CONT %d", who, pid)
	case 't':
		return who + " is stopped by a debugger; end the debugger"
	case 'D':
		return who + " waits in the kernel, for a device or a lock (state D); see dmesg, and /proc/" + fmt.Sprint(pid) + "/stack"
	case 'Z', 'X':
		return who + " has ended, and its parent has not noticed"
	case 'I', 'S':
		return who + " sleeps; its log may say what it waits for"
	case 'R':
		return who + " runs; it or the host is overloaded"
	}
	return fmt.Sprintf("%s is in state %c", who, state)
}

// Stopped reports whether a process is stopped, so that it answers nobody until it is resumed.
func Stopped(pid int) bool {
	_, state, err := statOf(pid)
	return err == nil && (state == 'T' || state == 't')
}

// statOf reads the name and the state of a process; see proc_pid_stat(5).
func statOf(pid int) (name string, state byte, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, err
	}
	// The name is in parentheses and may hold some itself.
	open, end := strings.IndexByte(string(text), '('), strings.LastIndex(string(text), ") ")
	if open < 0 || end < open || len(text) < end+3 {
		return "", 0, fmt.Errorf("/proc/%d/stat cannot be read: %q", pid, text)
	}
	return string(text[open+1 : end]), text[end+2], nil
}

// LockHolder returns the process that holds the lock of a path, 0 if that is not known.
func LockHolder(path string) int {
	f, err := openOwn(path, os.O_RDONLY)
	if err != nil {
		return 0
	}
	defer f.Close()
	return holder(f)
}
