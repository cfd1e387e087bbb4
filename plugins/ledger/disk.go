package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// disk is where the log lives. It is an interface so that tests can make it fail.
type disk interface {
	// read returns the whole file; a missing one is empty.
	read() ([]byte, error)
	// write appends, sync makes durable what was written.
	write(p []byte) error
	sync() error
	// replace puts a new, durable file in place of the old one, all or nothing.
	replace(p []byte) error
	// aside keeps a copy of a damaged file and returns its name.
	aside(p []byte) (string, error)
	close() error
}

// fileName is the log's name in the state directory.
const fileName = "ledger"

// fileDisk is a disk in a directory.
type fileDisk struct {
	dir string
	// file is open for appending; nil until the first replace.
	file *os.File
}

func (d *fileDisk) path() string { return filepath.Join(d.dir, fileName) }

func (d *fileDisk) read() ([]byte, error) {
	text, err := os.ReadFile(d.path())
	if os.IsNotExist(err) {
		return nil, nil
	}
	return text, err
}

func (d *fileDisk) write(p []byte) error {
	_, err := d.file.Write(p)
	return err
}

func (d *fileDisk) sync() error {
	for {
		if err := syscall.Fdatasync(int(d.file.Fd())); err != syscall.EINTR {
			return err
		}
	}
}

// replace leaves either the old or the new file, whenever the power fails: the
// new one is on disk before it gets the name, the name before anybody adds to it.
func (d *fileDisk) replace(p []byte) error {
	next := d.path() + ".new"
	if err := writeDurably(next, p); err != nil {
		return err
	}
	if err := os.Rename(next, d.path()); err != nil {
		return err
	}
	if err := syncDir(d.dir); err != nil {
		return err
	}
	file, err := os.OpenFile(d.path(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if d.file != nil {
		d.file.Close()
	}
	d.file = file
	return nil
}

// aside numbers the copies; old ones are kept, since each is evidence.
func (d *fileDisk) aside(p []byte) (string, error) {
	for n := 1; n <= maxAside; n++ {
		name := fmt.Sprintf("%s.damaged-%d", d.path(), n)
		if _, err := os.Lstat(name); os.IsNotExist(err) {
			return name, writeDurably(name, p)
		}
	}
	return "", fmt.Errorf("there are %d damaged ledgers in %s already; look at them and remove them", maxAside, d.dir)
}

// maxAside bounds how many damaged files are kept.
const maxAside = 100

func (d *fileDisk) close() error {
	if d.file == nil {
		return nil
	}
	return d.file.Close()
}

func writeDurably(name string, p []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(p); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
