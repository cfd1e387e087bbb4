package netlink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// As linux 6.12 prints it.
const netlinkTable = `sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode
000000004fd1b9f1 0   4711       00000111 0        0        0     2        0        20311   
0000000058c1e6a2 0   4294963199 00000000 0        0        0     2        0        20417   
0000000000000000 0   0          00000000 0        0        0     2        0        3       
000000002d5f2d1e 4   812        00000000 0        0        0     2        0        20500   
00000000ffffffff 12  4711       00000000 0        0        0     2        0        20600   
cut off          0   99
`

func TestPortIDs(t *testing.T) {
	for port, want := range map[uint32]uint64{4711: 20311, 4294963199: 20417, 812: 0, 99: 0, 4294967295: 0} {
		if got := inodeOf(netlinkTable, unix.NETLINK_ROUTE, port); got != want {
			t.Errorf("port %d has inode %d, want %d", port, got, want)
		}
	}
	if got := inodeOf(netlinkTable, unix.NETLINK_NETFILTER, 4711); got != 20600 {
		t.Errorf("the port of nftables has inode %d", got)
	}
}

// stat is a line of proc_pid_stat(5).
func stat(id int, name string, flags, began int) string {
	return fmt.Sprintf("%d (%s) S 1 1 1 0 -1 %d 1 0 0 0 0 0 0 0 20 0 1 0 %d 10 20 30\n", id, name, flags, began)
}

func TestStat(t *testing.T) {
	for text, want := range map[string]process{
		stat(7, "ip", 0x400100, 500):              {7, "ip", 500, false},
		stat(7, "a) S 1 (b", 0, 9):                {7, "a) S 1 (b", 9, false},
		stat(2, "kthreadd", kernelThread|0x40, 1): {2, "kthreadd", 1, true},
	} {
		if got, ok := parseStat(text); !ok || got != want {
			t.Errorf("%q is %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "7 (ip)", "7 (ip) S 1 1", "x (ip" + stat(7, ")", 0, 1), stat(7, "ip", 0, 1)[:30]} {
		if got, ok := parseStat(text); ok {
			t.Errorf("%q is %+v", text, got)
		}
	}
	self, ok := proc.process(os.Getpid())
	now := sinceBoot(time.Now())
	if !ok || self.id != os.Getpid() || self.began > now || now-self.began > 3600*ticks {
		t.Errorf("this process is %+v at %d", self, now)
	}
}

// system is a directory of processes that a test makes up.
type system struct {
	t   *testing.T
	dir processes
}

func (s system) add(id int, name string, flags, began int, inodes ...int) {
	s.t.Helper()
	at := filepath.Join(string(s.dir), strconv.Itoa(id))
	if err := os.MkdirAll(filepath.Join(at, "fd"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "stat"), []byte(stat(id, name, flags, began)), 0o600); err != nil {
		s.t.Fatal(err)
	}
	for i, inode := range append([]int{0}, inodes...) {
		if err := os.Symlink(fmt.Sprintf("socket:[%d]", inode), filepath.Join(at, "fd", strconv.Itoa(i))); err != nil {
			s.t.Fatal(err)
		}
	}
}

// Nobody is named who need not have done it.
func TestWhoHadAPort(t *testing.T) {
	s := system{t, processes(t.TempDir())}
	s.add(4711, "ip", 0, 100, 20)
	s.add(812, "Network\xffManager", 0, 50, 30, 31)
	s.add(17, "migration/1", kernelThread, 1)
	s.add(900, "late", 0, 5000, 40)
	s.add(os.Getpid(), "plumb-agent", 0, 10, 50)
	const heard = 1000
	for _, c := range []struct {
		what   string
		port   uint32
		inode  uint64
		err    error
		search bool
		want   string
	}{
		{"the first socket of a process", 4711, 20, nil, false, "ip (process 4711)"},
		{"another one", 4294963199, 31, nil, true, "Network?Manager (process 812)"},
		{"libnl's", 812 + 5<<22, 31, nil, false, "Network?Manager (process 812)"},
		{"in another PID namespace", 23, 20, nil, true, "ip (process 4711)"},
		{"no time to search", 4294963199, 31, nil, false, "an unknown process (netlink port 4294963199)"},
		{"nobody shows it", 4711, 99, nil, true, "an unknown process (netlink port 4711)"},
		{"the table cannot be read", 4711, 0, errors.New("no"), true, "an unknown process (netlink port 4711)"},
		{"closed", 4711, 0, nil, true, "a closed socket (netlink port 4711, the number of process ip)"},
		{"closed, not the first", 4294963199, 0, nil, true, "a closed socket (netlink port 4294963199)"},
		{"closed, and a thread of the kernel has the number", 17, 0, nil, true, "a closed socket (netlink port 17)"},
		{"ended", 4712, 0, nil, true, "a process that has ended (netlink port 4712)"},
		{"ended, and the number was given out again", 900, 0, nil, true, "a process that has ended (netlink port 900)"},
		{"and the new one has the port", 900, 40, nil, true, "an unknown process (netlink port 900)"},
		{"ourselves", uint32(os.Getpid()), 50, nil, true, ""},
		{"ourselves, closed", uint32(os.Getpid()), 0, nil, true, ""},
	} {
		got := s.dir.whoHad(c.port, heard, c.search, func() (uint64, error) { return c.inode, c.err })
		if got.text != c.want || got.named != (c.inode != 0 && c.want != "" && c.want[:2] != "an") {
			t.Errorf("%s: %+v, want %q", c.what, got, c.want)
		}
	}
}

// An answer serves all that one port does within a second, and searches take a bounded
// share of the time.
func TestAnswersAreKept(t *testing.T) {
	var a actors
	var searched []bool
	ask := func(port uint32) {
		a.who(actorID{1, port}, func(search bool) answer {
			searched = append(searched, search)
			time.Sleep(5 * time.Millisecond)
			return answer{}
		})
	}
	for range 1000 {
		ask(1)
	}
	ask(2)
	if len(searched) != 2 || !searched[0] || searched[1] {
		t.Errorf("searched %v", searched)
	}
	for i := range 3 * maxAnswers {
		a.who(actorID{1, uint32(i)}, func(bool) answer { return answer{} })
	}
	if len(a.answers) > maxAnswers {
		t.Errorf("%d answers are kept", len(a.answers))
	}
}

// The ports of our sockets are of our range, each once, and the kernel gives nobody such.
func TestOwnPorts(t *testing.T) {
	for range 3 {
		c, err := dial(unix.NETLINK_ROUTE)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		at, err := unix.Getsockname(c.fd)
		if err != nil || !isOwnPort(at.(*unix.SockaddrNetlink).Pid) {
			t.Errorf("%+v, %v", at, err)
		}
	}
	for _, port := range []uint32{0, 1, 4711, maxProcess - 1, firstPort - 1, firstPort + rangeSize, 1 << 31, 4294963199} {
		if isOwnPort(port) {
			t.Errorf("%d is ours; ours begin with %d", port, firstPort)
		}
	}
	// Of a port that is taken the next is used.
	taken, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(taken)
	next := firstPort + (nextPort.Load()+1)%rangeSize
	if err := unix.Bind(taken, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: next}); err != nil {
		t.Fatal(err)
	}
	c, err := dial(unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	c.close()
}
