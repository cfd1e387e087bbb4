package netlink

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// proc is where processes are.
const proc = processes("/proc")

// processes is a directory as proc(5) describes it.
type processes string

// process is one of them.
type process struct {
	id       int
	name     string
	began    uint64 // clock ticks since the boot
	ofKernel bool
}

// String names it for people.
func (p process) String() string {
	return fmt.Sprintf("%s (process %d)", valid(p.name), p.id)
}

// valid is a name that protobuf and JSON take: a process may call itself anything.
func valid(name string) string { return strings.ToValidUTF8(name, "?") }

// process reads what is known of a process; false if there is none.
func (d processes) process(id int) (process, bool) {
	text, err := os.ReadFile(filepath.Join(string(d), strconv.Itoa(id), "stat"))
	if err != nil {
		return process{}, false
	}
	return parseStat(string(text))
}

// kernelThread is PF_KTHREAD of linux/sched.h.
const kernelThread = 0x00200000

// parseStat reads a line of proc_pid_stat(5). The name may have blanks and parentheses.
func parseStat(text string) (p process, ok bool) {
	before, rest, _ := strings.Cut(text, " (")
	end := strings.LastIndex(rest, ") ")
	if end < 0 {
		return process{}, false
	}
	f := strings.Fields(rest[end+2:]) // from the third on, the state
	const flags, began = 9 - 3, 22 - 3
	if len(f) <= began {
		return process{}, false
	}
	id, err := strconv.Atoi(before)
	bits, err2 := strconv.ParseUint(f[flags], 10, 64)
	start, err3 := strconv.ParseUint(f[began], 10, 64)
	p = process{id: id, name: rest[:end], began: start, ofKernel: bits&kernelThread != 0}
	return p, err == nil && err2 == nil && err3 == nil
}

// sockets are the inodes of those that a process has open; none if we may not see them.
func (d processes) sockets(id string) (inodes []uint64) {
	path := filepath.Join(string(d), id, "fd")
	dir, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		to, _ := os.Readlink(filepath.Join(path, name))
		inode, is := strings.CutPrefix(to, "socket:[")
		if n, err := strconv.ParseUint(strings.TrimSuffix(inode, "]"), 10, 64); is && err == nil {
			inodes = append(inodes, n)
		}
	}
	return inodes
}

// search finds the process that has a socket open.
func (d processes) search(inode uint64) (process, bool) {
	dir, err := os.Open(string(d))
	if err != nil {
		return process{}, false
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if id, err := strconv.Atoi(name); err == nil && slices.Contains(d.sockets(name), inode) {
			return d.process(id)
		}
	}
	return process{}, false
}

// whoHad says who had a port when an event was heard of, in ticks; socket finds what is at
// the port now. A name is told as that of whoever did it only if the process has the
// socket, and had begun by then: numbers of processes, and so ports, are given out again,
// and in a PID namespace they are others.
func (d processes) whoHad(port uint32, heard uint64, search bool, socket func() (inode uint64, err error)) answer {
	// The kernel gives the first socket of a process its number as the port, and libnl puts
	// that into the low 22 bits (generate_local_port in lib/socket.c). These are looked at
	// before all else: they may be about to end.
	like, running := d.process(int(port % maxProcess))
	its := d.sockets(strconv.Itoa(int(port % maxProcess)))
	inode, err := socket()
	if inode != 0 && !slices.Contains(its, inode) && search {
		if p, found := d.search(inode); found {
			like, running, its = p, true, []uint64{inode}
		} else { // it may have ended meanwhile
			inode, err = socket()
		}
	}
	running = running && like.began <= heard
	switch {
	case running && like.id == os.Getpid():
		return answer{}
	case running && inode != 0 && slices.Contains(its, inode):
		return answer{text: like.String(), named: true}
	case inode != 0 || err != nil:
		return answer{text: fmt.Sprintf("an unknown process (netlink port %d)", port)}
	case port >= maxProcess || running && like.ofKernel:
		return answer{text: fmt.Sprintf("a closed socket (netlink port %d)", port)}
	case running:
		return answer{text: fmt.Sprintf("a closed socket (netlink port %d, the number of process %s)", port, valid(like.name))}
	}
	return answer{text: fmt.Sprintf("a process that has ended (netlink port %d)", port)}
}

// inodeOf finds a socket in the table of /proc/net/netlink, 0 if it is not there. Its
// columns are sk, Eth (the protocol), Pid (the port), Groups, Rmem, Wmem, Dump, Locks,
// Drops, Inode; see netlink_native_seq_show in net/netlink/af_netlink.c.
func inodeOf(table string, protocol int, port uint32) uint64 {
	const its, ports, inodes = 1, 2, 9
	p, n := strconv.Itoa(protocol), strconv.FormatUint(uint64(port), 10)
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > inodes && f[its] == p && f[ports] == n {
			inode, _ := strconv.ParseUint(f[inodes], 10, 64)
			return inode
		}
	}
	return 0
}

// ticks are those of a second in what the kernel tells: USER_HZ of asm-generic/param.h,
// the same on all machines that Go is for.
const ticks = 100

// sinceBoot is a time as processes tell their beginning, in clock ticks.
func sinceBoot(t time.Time) uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0 // nobody began as early
	}
	return uint64(max(time.Duration(now.Nano())-time.Since(t), 0) / (time.Second / ticks))
}
