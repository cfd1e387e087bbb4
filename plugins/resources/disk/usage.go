package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Usage is how full a file system is, or how much of it a container takes.
type Usage struct {
	Device string // as /dev/sda1
	// Point is where it is mounted, and Type its kind; both "" for a container's.
	Point, Type string
	// Capacity is how large the file system is, Used what of it is taken, in bytes.
	Capacity, Used uint64
	// Inodes is how many the file system can have, 0 if it makes them as they are needed,
	// InodesFree how many it can still have, InodesUsed what is taken.
	Inodes, InodesFree, InodesUsed uint64
	// AtLeast: there were too many files to count them all.
	AtLeast bool

	number uint64
}

// full is how full the file system is in which a directory is.
func full(dir string) (Usage, error) {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return Usage{}, fmt.Errorf("%s: %w", dir, err)
	}
	if err := unix.Stat(dir, &st); err != nil {
		return Usage{}, fmt.Errorf("%s: %w", dir, err)
	}
	block := uint64(fs.Frsize)
	return Usage{
		Device: DeviceFile(fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))), number: st.Dev,
		Capacity: fs.Blocks * block, Used: (fs.Blocks - min(fs.Bfree, fs.Blocks)) * block,
		Inodes: fs.Files, InodesFree: fs.Ffree, InodesUsed: fs.Files - min(fs.Ffree, fs.Files),
	}, nil
}
