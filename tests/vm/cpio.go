package vm

import (
	"fmt"
	"io"
)

// The types of files in an archive, as stat(2) has them.
const (
	directory  = 0o040000
	regular    = 0o100000
	symlink    = 0o120000
	charDevice = 0o020000
)

// cpio writes an archive in the one form that the kernel reads, "newc": see its
// Documentation/driver-api/early-userspace/buffer-format.rst.
type cpio struct {
	w     io.Writer
	inode int
	err   error
}

// add writes one file; major and minor are those of a device.
func (c *cpio) add(name string, mode uint32, data []byte, major, minor int) {
	c.inode++
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		c.inode, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0)
	c.padded([]byte(head + name + "\x00"))
	c.padded(data)
}

func (c *cpio) end() { c.add("TRAILER!!!", 0, nil, 0, 0) }

// padded writes up to the next multiple of four.
func (c *cpio) padded(b []byte) {
	if c.err != nil {
		return
	}
	if _, c.err = c.w.Write(b); c.err == nil && len(b)%4 != 0 {
		_, c.err = c.w.Write(make([]byte, 4-len(b)%4))
	}
}
