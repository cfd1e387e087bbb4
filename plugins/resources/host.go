package resources

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/plumb-net/plumb/plugins/resources/cgroup"
	"github.com/plumb-net/plumb/plugins/resources/disk"
)

// host is what the collector asks of the kernel, but for file systems from one goroutine
// at a time.
type host interface {
	// find returns the cgroup of a container by its first process, which is known by its
	// network namespace.
	find(pid int, netns uint64, id string) (cgroup.Group, error)
	// root is the cgroup of the machine; false if there is none.
	root() (cgroup.Group, bool)
	below(g cgroup.Group, depth, most int, skip func(path string) bool) (all []cgroup.Group, more int)
	stats(g cgroup.Group) (cgroup.Stats, error)
	limits(g cgroup.Group) (cgroup.Limits, error)
	interfaces(pid int, netns uint64) ([]cgroup.Interface, error)
	// uplinks are the interfaces of the machine.
	uplinks() ([]cgroup.Interface, error)
	// filesystems are those of the machine; layer is how much of one a container takes.
	// These two may run beside the others, and take long.
	filesystems() ([]disk.Usage, error)
	layer(ctx context.Context, pid int, netns uint64) (disk.Usage, error)
	// memory is how much the machine has, 0 if that is not known.
	memory() uint64
	// netns is the inode of the namespace that is not a container's own.
	netns() uint64
}

// linux is the real one.
type linux struct {
	mounts cgroup.Mounts
	reader cgroup.Reader
	total  uint64
	own    uint64
}

func openHost() (*linux, error) {
	mounts, err := cgroup.Mounted()
	if err != nil {
		return nil, fmt.Errorf("cgroups: %w", err)
	}
	h := &linux{mounts: mounts}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		h.total = memTotal(string(text))
	}
	if h.own, err = netnsOf("self"); err != nil {
		return nil, fmt.Errorf("own network namespace: %w", err)
	}
	return h, nil
}

func netnsOf(process string) (uint64, error) {
	var st syscall.Stat_t
	err := syscall.Stat("/proc/"+process+"/ns/net", &st)
	return st.Ino, err
}

// memTotal reads a meminfo, in bytes.
func memTotal(meminfo string) uint64 {
	_, rest, _ := strings.Cut("\n"+meminfo, "\nMemTotal:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseUint(fields[0], 10, 64)
	return kib << 10
}

// errEnded: the id of a container's first process is nobody's, or another's by now.
var errEnded = errors.New("its first process ended")

func (h *linux) find(pid int, netns uint64, id string) (cgroup.Group, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return cgroup.Group{}, err
	}
	if now, err := netnsOf(strconv.Itoa(pid)); err != nil || now != netns {
		return cgroup.Group{}, errEnded
	}
	g, ok := h.mounts.Find(string(text), id)
	if !ok {
		return cgroup.Group{}, errors.New("it has no cgroup of its own")
	}
	return g, nil
}

func (h *linux) root() (cgroup.Group, bool) { return h.mounts.Root() }
func (h *linux) below(g cgroup.Group, depth, most int, skip func(string) bool) ([]cgroup.Group, int) {
	return g.Below(depth, most, skip)
}
func (h *linux) stats(g cgroup.Group) (cgroup.Stats, error)   { return h.reader.Stats(g) }
func (h *linux) limits(g cgroup.Group) (cgroup.Limits, error) { return h.reader.Limits(g) }
func (h *linux) interfaces(pid int, netns uint64) ([]cgroup.Interface, error) {
	return h.reader.Interfaces(pid, netns)
}
func (h *linux) uplinks() ([]cgroup.Interface, error) { return h.reader.Uplinks() }
func (h *linux) filesystems() ([]disk.Usage, error)   { return disk.Machine() }

func (h *linux) layer(ctx context.Context, pid int, netns uint64) (disk.Usage, error) {
	dir, err := disk.LayerOf(pid)
	if err != nil {
		return disk.Usage{}, err
	}
	if now, err := netnsOf(strconv.Itoa(pid)); err != nil || now != netns {
		return disk.Usage{}, errEnded
	}
	return disk.Walk(ctx, dir)
}

func (h *linux) memory() uint64 { return h.total }
func (h *linux) netns() uint64  { return h.own }
