package agent

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// failpoint makes crash tests possible: with PLUMB_FAILPOINT=<name>=<n> the
// agent kills itself, as kill -9 would, when it passes the place for the n-th
// time. PLUMB_FAILPOINT_LOG names a file that gets the name of the place.
// Without the variable there is no failpoint and no cost.
func failpoint() kernel.Failpoint {
	name, count, ok := strings.Cut(os.Getenv("PLUMB_FAILPOINT"), "=")
	at, err := strconv.ParseInt(count, 10, 64)
	if !ok || err != nil {
		return nil
	}
	var passed atomic.Int64
	return func(place string) error {
		if place != name || passed.Add(1) != at {
			return nil
		}
		if path := os.Getenv("PLUMB_FAILPOINT_LOG"); path != "" {
			if f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
				_, _ = f.WriteString(place + "\n")
				f.Close()
			}
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

// failing passes a failpoint after each change of a ledger: <what>/recorded when
// entries are on disk, <what>/erased when they are forgotten.
type failing struct {
	kernel.Ledger
	what string
	hit  kernel.Failpoint
}

func withFailpoint(l kernel.Ledger, what string) kernel.Ledger {
	if hit := failpoint(); hit != nil {
		return failing{l, what, hit}
	}
	return l
}

func (f failing) Add(entries ...kernel.Entry) error {
	if err := f.Ledger.Add(entries...); err != nil {
		return err
	}
	return f.hit(f.what + "/recorded")
}

func (f failing) Remove(ids ...string) {
	f.Ledger.Remove(ids...)
	_ = f.hit(f.what + "/erased")
}
