package containerd

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// clockTick is the unit of times in /proc, the same on all machines with Linux
// that Go runs on.
const clockTick = time.Second / 100

// bornAt is when a process began, at most a tick too early, zero if there is
// none. Two answers for one process may differ a little, by more if the clock
// was set between them.
func bornAt(pid int) time.Time {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return time.Time{}
	}
	// The start is field 22; the name in field 2 may hold blanks and brackets.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 20 {
		return time.Time{}
	}
	ticks, err := strconv.ParseInt(string(fields[19]), 10, 64)
	var up unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(ticks)*clockTick - time.Duration(up.Nano())).Round(0)
}
