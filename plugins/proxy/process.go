package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/pidfd"
)

// held is a process that is followed to its end.
type held struct {
	kernel.ProxyProcess
	process *pidfd.Process
	// told: its end is no news.
	told bool
	done chan struct{} // closed when it has ended
}

// open holds a process if it is still the one that was meant: its number can be another's
// by now, its number and start time together cannot, and its mark says whose it is. One
// that was just born shows its mark a moment later.
func open(p kernel.ProxyProcess, newborn bool) (*pidfd.Process, error) {
	if p.PID <= 0 {
		return nil, kernel.ErrNotExist
	}
	process, err := pidfd.Open(p.PID)
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOSYS) {
		process, err = pidfd.OpenByStartTime(p.PID)
	}
	if errors.Is(err, unix.ESRCH) {
		return nil, kernel.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("hold process %d: %w", p.PID, err)
	}
	if start, err := pidfd.StartTime(p.PID); err != nil || start != p.Start || !newborn && markOf(p.PID) != p.Mark || !process.Alive() {
		process.Close()
		return nil, kernel.ErrNotExist
	}
	return process, nil
}

// arguments are what a process was started with.
func arguments(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// markOf is the mark of a process, "" if it bears none.
func markOf(pid int) string {
	if args := arguments(pid); len(args) == 5 && args[1] == command {
		return args[2]
	}
	return ""
}

// processes are all that there are.
func processes() (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// marked are the processes with a mark. Anybody may write what he likes into the arguments
// of his processes, root of a container too; so they are root's, among the processes that
// we are among.
func marked() (list []kernel.ProxyProcess) {
	here, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil
	}
	for _, pid := range processes() {
		args := arguments(pid)
		if len(args) != 5 || args[1] != command || !ofRoot(pid) {
			continue
		}
		if there, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err != nil || there != here {
			continue
		}
		start, err := pidfd.StartTime(pid)
		if err == nil {
			list = append(list, kernel.ProxyProcess{Mark: args[2], Control: args[3], PID: pid, Start: start})
		}
	}
	return list
}

// ofRoot reports whether a process belongs to this user in every way. The owner of its
// files in /proc says less: they are root's where a process must not be looked into.
func ofRoot(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	_, rest, found := bytes.Cut(status, []byte("\nUid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	ids := strings.Fields(string(line))
	want := strconv.Itoa(os.Geteuid())
	return found && len(ids) == 4 && ids[0] == want && ids[1] == want && ids[2] == want && ids[3] == want
}
