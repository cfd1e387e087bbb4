package namespace

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/scheduler"
)

// poll is how often the namespaces that are needed are looked at. The kernel
// tells nobody of a process that starts or of a bind mount, so there is nothing
// better for their coming; their end is known at once by the kernel's events.
const poll = time.Second

func (d *observer) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return owned.Poll(ctx, d.opts.Poll, poll, d.moved, notify)
}

// moved returns the keys whose namespace is not the one last seen.
func (d *observer) moved(context.Context) []scheduler.Key {
	var moved []scheduler.Key
	for _, k := range d.keys() {
		_, path, _ := d.file(k)
		inode := statInode(path)
		d.mu.Lock()
		if s := d.wanted[k]; s != nil && s.inode != inode {
			moved = append(moved, k)
		}
		d.mu.Unlock()
	}
	return moved
}

// statInode reads an inode without opening the namespace, 0 if there is none.
func statInode(path string) uint64 {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return 0
	}
	return st.Ino
}

// startTime reads when a process started, in clock ticks since boot.
func startTime(pid uint32) (uint64, error) {
	data, err := os.ReadFile("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/stat")
	if err != nil {
		return 0, err
	}
	// The name of the program stands in parentheses and may hold anything.
	_, rest, _ := strings.Cut(string(data[strings.LastIndexByte(string(data), ')')+1:]), " ")
	fields := strings.Fields(rest)
	const started = 19 // proc(5) counts it as 22, from 1 and with pid, name
	if len(fields) <= started || fields[0] == "Z" {
		return 0, fmt.Errorf("process %d does not run", pid)
	}
	return strconv.ParseUint(fields[started], 10, 64)
}
