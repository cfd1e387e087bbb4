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
