package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// TestRemovesOnlyOurs: without the agent an interface goes that bears our mark,
// and no other; what is not there is no error.
func TestRemovesOnlyOurs(t *testing.T) {
	ns := netlinktest.New(t)
	ns.IP(t, "link add eth0 type bridge")
	ns.IP(t, "link set eth0 alias plumb:host7:interface/web")
	ns.IP(t, "link add eth1 type bridge")
	k := kernelNamespaces{}
	if inode, host := k.inode(ns.Path); inode != ns.Inode || host {
		t.Errorf("inode %d, host %v; want %d", inode, host, ns.Inode)
	}
	for _, name := range []string{"eth0", "eth0", "eth9"} {
		if err := k.unlink(ns.Path, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := k.unlink(ns.Path, "eth1"); err == nil || !strings.Contains(err.Error(), "no mark") {
		t.Errorf("eth1: %v", err)
	}
	if got := ns.IP(t, "-br link show"); strings.Contains(got, "eth0") || !strings.Contains(got, "eth1") {
		t.Errorf("left:\n%s", got)
	}
	if err := k.unlink(filepath.Join(t.TempDir(), "gone"), "eth0"); err != nil {
		t.Error(err)
	}
}

// TestInodes: the host is known by whatever path, and what is no namespace too.
func TestInodes(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	k := kernelNamespaces{}
	if inode, host := k.inode(ownNamespace); inode == 0 || !host {
		t.Errorf("%s: %d, %v", ownNamespace, inode, host)
	}
	if inode, host := k.inode("/proc/1/ns/net"); inode != 0 && !host {
		t.Errorf("that of the first process: %d, %v", inode, host)
	}
	for path, kind := range map[string]string{"/etc/passwd": "", "/nowhere": "", "/proc/self/stat": "", ownNamespace: "",
		"/proc/self/ns/mnt": "mnt", "/proc/self/ns/user": "user", "/proc/self/ns/pid": "pid", "/proc/self/ns/cgroup": "cgroup"} {
		if inode, _ := k.inode(path); inode != 0 && path != ownNamespace {
			t.Errorf("%s is taken for a namespace, %d", path, inode)
		}
		if got := k.another(path); got != kind {
			t.Errorf("%s is of type %q, want %q", path, got, kind)
		}
	}
}

// TestAloneAndAnywhere: the program is static, needs no other file, and works in
// any directory and with nothing in its environment.
func TestAloneAndAnywhere(t *testing.T) {
	program := filepath.Join(t.TempDir(), "plumb-cni")
	build := exec.Command("go", "build", "-trimpath", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if libs, _ := file.ImportedLibraries(); len(libs) > 0 || file.Section(".interp") != nil {
		t.Errorf("it is not static: %v", libs)
	}
	call := exec.Command(program)
	call.Dir, call.Env = "/", []string{"CNI_COMMAND=VERSION"}
	if out, err := call.CombinedOutput(); err != nil || !strings.Contains(string(out), `"1.1.0"`) {
		t.Errorf("%v\n%s", err, out)
	}
}

// BenchmarkN23_Start is a whole call of VERSION, beside a program that does nothing.
func BenchmarkN23_Start(b *testing.B) {
	program := filepath.Join(b.TempDir(), "plumb-cni")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for name, path := range map[string]string{"plumb-cni": program, "floor": "/bin/true"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				call := exec.Command(path)
				call.Env = []string{"CNI_COMMAND=VERSION"}
				if err := call.Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
