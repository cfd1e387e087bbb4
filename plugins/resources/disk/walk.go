package disk

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// mostFiles and deepest bound a walk.
	mostFiles = 2_000_000
	deepest   = 100
	// After each bunch of files the walk rests for so many times as long as that took.
	bunch       = 256
	rests       = 100
	longestRest = 10 * time.Second
)

// Walk is how much of its file system a directory takes, with all below it. It follows no
// link and enters no other file system, so whoever writes there cannot lead it elsewhere.
// It takes a long time: most of it rests.
func Walk(ctx context.Context, dir string) (Usage, error) {
	return newWalker(ctx, mostFiles, deepest).walk(dir)
}

// Idle lets the calling thread have the processor and the devices when nobody else wants
// them.
func Idle() {
	const process, idle = 1, 3 << 13 // of ioprio_set
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 19)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, process, 0, idle)
}

type walker struct {
	ctx                  context.Context
	files, deepest, seen int
	device               uint64
	usage                Usage
	linked               map[uint64]bool // inodes with several names that were counted
	begun                time.Time       // when the bunch was
	rest                 func(time.Duration)
}

func newWalker(ctx context.Context, files, deepest int) *walker {
	w := &walker{ctx: ctx, files: files, deepest: deepest, linked: map[uint64]bool{}}
	w.rest = func(d time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	return w
}

func (w *walker) walk(dir string) (Usage, error) {
	u, err := full(dir)
	if err != nil {
		return Usage{}, err
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return Usage{}, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return Usage{}, err
	}
	u.Used, u.InodesUsed = 0, 0
	w.usage, w.device, w.begun = u, st.Dev, time.Now()
	w.count(&st)
	err = w.below(os.NewFile(uintptr(fd), dir), 0)
	return w.usage, err
}

// below counts what is in a directory, which it closes.
func (w *walker) below(dir *os.File, depth int) error {
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(bunch)
		for _, name := range names {
			if err := w.entry(int(dir.Fd()), name, depth); err != nil {
				return err
			}
		}
		if err != nil || w.seen >= w.files { // the end, or it was removed meanwhile
			return nil
		}
	}
}

// entry counts one name, and what is below it. It fails only if the walk is to end.
func (w *walker) entry(dir int, name string, depth int) error {
	if w.seen >= w.files {
		w.usage.AtLeast = true
		return nil
	}
	w.seen++
	if w.seen%bunch == 0 {
		w.rest(min(rests*time.Since(w.begun), longestRest))
		w.begun = time.Now()
	}
	if err := w.ctx.Err(); err != nil {
		return err
	}
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Dev != w.device {
		return nil
	}
	w.count(&st)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	if depth == w.deepest {
		w.usage.AtLeast = true
		return nil
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return w.below(os.NewFile(uintptr(fd), name), depth+1)
}

// count takes in a file, unless it was counted under another name.
func (w *walker) count(st *unix.Stat_t) {
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if w.linked[st.Ino] {
			return
		}
		w.linked[st.Ino] = true
	}
	w.usage.InodesUsed++
	w.usage.Used += uint64(st.Blocks) * 512
}
