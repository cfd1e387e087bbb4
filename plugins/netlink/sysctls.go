package netlink

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Settings are files of which every namespace shows its own to the threads in it.

// Sysctl reads a setting of a namespace.
func (k *Kernel) Sysctl(ns kernel.NS, place string) (value string, err error) {
	err = k.in(ns, "read the setting "+place, func(n *namespace) error {
		return n.setting(place, unix.O_RDONLY, func(fd int) error {
			buf := n.pool.Get().(*[bufferSize]byte)
			defer n.pool.Put(buf)
			size, err := unix.Read(fd, buf[:])
			value = string(bytes.TrimRight(buf[:max(size, 0)], "\n"))
			return err
		})
	})
	return value, err
}

// SetSysctl changes a setting of a namespace.
func (k *Kernel) SetSysctl(ns kernel.NS, place, value string) error {
	return k.in(ns, fmt.Sprintf("set %s to %q", place, value), func(n *namespace) error {
		return n.setting(place, unix.O_WRONLY, func(fd int) error {
			n.writes.add(1)
			_, err := unix.Write(fd, []byte(value+"\n"))
			return err
		})
	})
}

// setting opens a setting as the namespace has it.
func (n *namespace) setting(place string, flags int, work func(fd int) error) error {
	err := n.within(func() error {
		fd, err := openSetting(place, flags)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return work(fd)
	})
	if errors.Is(err, unix.ENOENT) {
		err = fmt.Errorf("%w: %w", kernel.ErrNotExist, err)
	}
	return err
}
