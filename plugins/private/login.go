package private

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// LoginUID returns the user who logged in and from whose login a process descends, whatever it
// has become since by sudo or su; see /proc/PID/loginuid in proc(5).
func LoginUID(pid int) (uid int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/loginuid", pid))
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err == nil && n == math.MaxUint32 {
		err = errors.New("nobody logged in")
	}
	return int(n), err
}
