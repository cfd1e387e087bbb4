package pidfd

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// StartTime is when the process began, in clock ticks since the boot: field 22
// of its stat file. The name in field 2 may hold blanks and brackets.
func StartTime(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if os.IsNotExist(err) {
		return 0, unix.ESRCH
	}
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 20 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return 0, unix.ESRCH
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}
