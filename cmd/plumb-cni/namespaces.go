package main

import (
	"os"
	"syscall"
)

// kernelNamespaces are those of the running kernel.
type kernelNamespaces struct{}

// ownNamespace is the network namespace of the thread that asks.
const ownNamespace = "/proc/thread-self/ns/net"

// nsfs is the file system of namespaces.
const nsfs = 0x6e736673

func (kernelNamespaces) inode(path string) (inode uint64, host bool) {
	var st, own syscall.Stat_t
	var fs syscall.Statfs_t
	if syscall.Statfs(path, &fs) != nil || fs.Type != nsfs || syscall.Stat(path, &st) != nil {
		return 0, false
	}
	if another(path) != "" {
		return 0, false
	}
	if err := syscall.Stat(ownNamespace, &own); err != nil {
		return 0, false
	}
	if st.Dev == own.Dev && st.Ino == own.Ino {
		return st.Ino, true
	}
	// Who runs the program elsewhere must not reach the host by a path either.
	if err := syscall.Stat("/proc/1/ns/net", &own); err == nil && st.Dev == own.Dev && st.Ino == own.Ino {
		return st.Ino, true
	}
	return st.Ino, false
}

// nsGetType asks for the type of a namespace by its file, see ioctl_ns(2).
const nsGetType = 0xb703

// types are the namespaces that are not of the network.
var types = map[uintptr]string{
	syscall.CLONE_NEWNS: "mnt", syscall.CLONE_NEWPID: "pid", syscall.CLONE_NEWUSER: "user",
	syscall.CLONE_NEWUTS: "uts", syscall.CLONE_NEWIPC: "ipc", 0x2000000: "cgroup", 0x80: "time",
}

// another is the type of a namespace that is not of the network, "" if it is, and for
// what is no namespace or cannot be asked.
func another(path string) string {
	var fs syscall.Statfs_t
	if syscall.Statfs(path, &fs) != nil || fs.Type != nsfs {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	kind, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), nsGetType, 0)
	if errno != 0 {
		return ""
	}
	return types[kind]
}

func (kernelNamespaces) another(path string) string { return another(path) }

func (kernelNamespaces) has(path, ifname string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return inNamespace(file.Fd(), func() error { return isThere(ifname) }) == nil
}

func (kernelNamespaces) forwards(family int) bool {
	text, err := os.ReadFile(map[int]string{4: "/proc/sys/net/ipv4/ip_forward", 6: "/proc/sys/net/ipv6/conf/all/forwarding"}[family])
	return err != nil || len(text) > 0 && text[0] != '0' // what cannot be read is not told
}

func (kernelNamespaces) unlink(path, ifname string) error {
	file, err := os.Open(path)
	if err != nil {
		return nil // gone, and what was in it
	}
	defer file.Close()
	return inNamespace(file.Fd(), func() error { return removeOurs(ifname) })
}
