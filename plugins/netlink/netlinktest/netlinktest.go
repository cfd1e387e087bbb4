// Package netlinktest gives tests network namespaces of their own, and ip(8)
// inside of them as a reader that shares no code with what is tested.
package netlinktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Patience is how long Eventually waits.
const Patience = 2 * time.Minute

// Namespace is a network namespace that ends with its test.
type Namespace struct {
	// Path is its nsfs file, good for this process and its children.
	Path string
	// Inode is its identity.
	Inode uint64
}

// Root ends a test that cannot work without root: with a failure in CI, which
// has it, and as skipped elsewhere.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("this test needs root, and CI has to provide it")
	}
	t.Skip("needs root")
}

// Linux reports whether the kernel is of that version, or newer.
func Linux(t testing.TB, major, minor int) bool {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var is [2]int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &is[0], &is[1]); err != nil {
		t.Fatalf("version of the kernel: %v", err)
	}
	return is[0] > major || is[0] == major && is[1] >= minor
}

// Rename gives a link another name, as somebody else would. Before Linux 6.2 it must be
// down meanwhile.
func (n *Namespace) Rename(t testing.TB, link, name string) {
	t.Helper()
	if !Linux(t, 6, 2) {
		n.IP(t, "link set dev "+link+" down")
		defer n.IP(t, "link set dev "+name+" up")
	}
	n.IP(t, "link set dev "+link+" name "+name)
}

// Forwarding waits until a bridge forwards by its ports, which the kernel decides some time
// after it was told that they are up.
func (n *Namespace) Forwarding(t testing.TB, ports ...string) {
	t.Helper()
	for _, p := range ports {
		Eventually(t, p+" forwards", func() bool {
			return strings.Contains(n.Run(t, "bridge", "link", "show", "dev", p), "state forwarding")
		})
	}
}

// New makes a namespace without a name. It lives as long as this process holds
// it, so nothing is left behind even by a test that is killed.
func New(t testing.TB) *Namespace {
	t.Helper()
	Root(t)
	f := open(t)
	t.Cleanup(func() { f.Close() })
	return describe(t, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()), f)
}

// Mount makes a namespace that is mounted at a path, as named ones are.
func Mount(t testing.TB, path string) *Namespace {
	t.Helper()
	Root(t)
	f := open(t)
	defer f.Close()
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	from := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if err := unix.Mount(from, path, "none", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Unmount(path, unix.MNT_DETACH)
		_ = os.Remove(path)
	})
	return describe(t, path, f)
}

// Dir is a directory for mounts that is gone after the test.
func Dir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "netns")
	t.Cleanup(func() {
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			_ = unix.Unmount(filepath.Join(dir, f.Name()), unix.MNT_DETACH)
		}
		// Namespaces made at the same time may have mounted it more than once.
		for unix.Unmount(dir, unix.MNT_DETACH) == nil {
		}
	})
	return dir
}

// Process is a process in a network namespace of its own.
type Process struct {
	Namespace
	Pid int

	cmd  *exec.Cmd
	done bool
}

// Start runs a process that does nothing, like a container without a network.
func Start(t testing.TB) *Process {
	t.Helper()
	Root(t)
	// It reads a pipe that nobody writes to, so it ends with this process.
	p := &Process{cmd: exec.Command("cat")}
	if _, err := p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.Pid = p.cmd.Process.Pid
	t.Cleanup(p.Kill)
	path := fmt.Sprintf("/proc/%d/ns/net", p.Pid)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	Inherit(t, path)
	p.Namespace = *describe(t, path, f)
	return p
}

// Kill ends the process as a crash would.
func (p *Process) Kill() {
	if p.done {
		return
	}
	p.done = true
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// open makes a namespace and returns its open file.
func open(t testing.TB) *os.File {
	t.Helper()
	p, err := ours()
	if err != nil {
		t.Fatal(err)
	}
	var f *os.File
	result := make(chan error)
	go elsewhere(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		if err := p.Apply(); err != nil {
			return err
		}
		// The detection of duplicate addresses takes up to two seconds. Tests of it enable it.
		err := Setting{"ipv6/conf/default/accept_dad", "0"}.write()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f, err = openThreadNamespace()
		return err
	}, result)
	if err := <-result; err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	return f
}

// elsewhere does work that leaves the namespace of its thread, on a thread of its own, which
// then goes back to where it came from. It does not end with the goroutine: what was started
// from it with Pdeathsig would end as well. It is not the main thread, whose namespace is that
// of the process.
func elsewhere(work func() error, result chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		inner := make(chan error)
		go elsewhere(work, inner)
		result <- <-inner
		runtime.UnlockOSThread()
		return
	}
	before, err := openThreadNamespace()
	if err != nil {
		runtime.UnlockOSThread()
		result <- err
		return
	}
	err = work()
	// A thread that cannot go back stays locked, and so ends after all.
	if back := unix.Setns(int(before.Fd()), unix.CLONE_NEWNET); back == nil {
		runtime.UnlockOSThread()
	}
	before.Close() // before anybody goes on: there are tests that count files
	result <- err
}

func openThreadNamespace() (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
}

func describe(t testing.TB, path string, f *os.File) *Namespace {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return &Namespace{Path: path, Inode: st.Ino}
}

// Run executes a command in the namespace and returns what it printed.
func (n *Namespace) Run(t testing.TB, command ...string) string {
	t.Helper()
	out, err := n.Try(command...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return out
}

// Try is Run for commands that may fail.
func (n *Namespace) Try(command ...string) (string, error) {
	out, err := exec.Command("nsenter", append([]string{"--net=" + n.Path, "--"}, command...)...).CombinedOutput()
	return string(out), err
}

// IP runs ip(8) with arguments separated by blanks.
func (n *Namespace) IP(t testing.TB, args string) string {
	t.Helper()
	return n.Run(t, append([]string{"ip"}, strings.Fields(args)...)...)
}

// JSON runs `ip -d -j` and returns the objects that it prints.
func (n *Namespace) JSON(t testing.TB, args string) []map[string]any {
	t.Helper()
	out := n.IP(t, "-d -j "+args)
	var list []map[string]any
	if strings.TrimSpace(out) == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("ip %s printed %q: %v", args, out, err)
	}
	return list
}

// Show is the link with a name, nil if there is none.
func (n *Namespace) Show(t testing.TB, link string) map[string]any {
	t.Helper()
	for _, l := range n.JSON(t, "link show") {
		if l["ifname"] == link {
			return l
		}
	}
	return nil
}

// Names are the names of all links but lo, in order of their indexes.
func (n *Namespace) Names(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, l := range n.JSON(t, "link show") {
		if name := l["ifname"].(string); name != "lo" {
			names = append(names, name)
		}
	}
	return names
}

// Sysctl sets a value under /proc/sys/net.
func (n *Namespace) Sysctl(t testing.TB, key, value string) {
	t.Helper()
	if err := Inside(n.Path, Setting{key, value}.write); err != nil {
		t.Fatal(err)
	}
}

// Eventually waits until a condition holds.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", Patience, what)
		}
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
}
