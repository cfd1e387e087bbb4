package ledger

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/plumb-net/plumb/plugins/private"
)

// disk is where the log lives. It is an interface so that tests can make it fail.
type disk interface {
	// read returns the whole file; there is false if there is none.
	read() (text []byte, there bool, err error)
	// write puts lines, and a new last line, in place of the last line; sync makes
	// durable what was written.
	write(lines []byte) error
	sync() error
	// replace puts a new, durable file of these lines and a last one in place of the
	// old one, all or nothing.
	replace(lines []byte) error
	// resume makes durable what was read, and ready to go on with it. Its last line begins
	// at an offset.
	resume(last int) error
	// aside keeps a copy of a damaged file and returns its name.
	aside(p []byte) (string, error)
	// stands reports whether the name still leads to the file that is written.
	stands() bool
	close() error
}

// fileName is the log's name in the state directory.
const fileName = "ledger"

// fileDisk is a disk in a directory.
type fileDisk struct {
	dir string
	// file is open for writing; nil until the first replace.
	file *os.File
	// size is where its last line begins.
	size int
}

func (d *fileDisk) path() string { return filepath.Join(d.dir, fileName) }

func (d *fileDisk) read() (text []byte, there bool, err error) {
	text, err = private.ReadState(d.path())
	if os.IsNotExist(err) {
		return nil, false, nil
	}
	return text, err == nil, err
}

// resume syncs, since whoever wrote the file may have been killed before that.
func (d *fileDisk) resume(last int) error {
	file, err := private.OpenFile(d.path(), os.O_WRONLY)
	if err != nil {
		return err
	}
	d.file, d.size = file, last
	if err := d.sync(); err != nil {
		file.Close()
		d.file = nil
		return err
	}
	return nil
}

// write leaves the file as it was if it fails, as far as the disk lets it: what is
// restored was there and needs no room.
func (d *fileDisk) write(lines []byte) error {
	size := d.size + len(lines)
	err := extend(d.file, d.size, append(lines[:len(lines):len(lines)], endLine(size)...))
	if err == nil {
		d.size = size
		return nil
	}
	last := endLine(d.size)
	if _, again := d.file.WriteAt(last, int64(d.size)); again == nil {
		_ = d.file.Truncate(int64(d.size + len(last)))
	}
	return err
}

// extend puts a text in place of the last line, which begins at an offset and is shorter. The
// kernel ends a write between two pages when the program is killed; so what comes behind
// the last line is written first, and that makes way with one more write, of a few bytes.
// Until then the file ends, for a reader, where it did.
func extend(f io.WriterAt, at int, text []byte) error {
	last := len(endLine(at))
	_, err := f.WriteAt(text[last:], int64(at+last))
	if err == nil {
		_, err = f.WriteAt(text[:last], int64(at))
	}
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
func (d *fileDisk) replace(lines []byte) error {
	next := d.path() + ".new"
	if err := writeDurably(next, append(lines[:len(lines):len(lines)], endLine(len(lines))...)); err != nil {
		_ = os.Remove(next) // half of it would only take room
		return err
	}
	if err := os.Rename(next, d.path()); err != nil {
		return err
	}
	if err := syncDir(d.dir); err != nil {
		return err
	}
	file, err := private.OpenFile(d.path(), os.O_WRONLY)
	if err != nil {
		return err
	}
	if d.file != nil {
		d.file.Close()
	}
	d.file, d.size = file, len(lines)
	return nil
}

func (d *fileDisk) stands() bool {
	if d.file == nil {
		return false
	}
	open, err := d.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(d.path())
	return err == nil && os.SameFile(open, named)
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
	f, err := private.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
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
