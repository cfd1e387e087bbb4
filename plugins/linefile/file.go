package linefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/plumb-net/plumb/plugins/private"
)

// Format is what stands in the files.
type Format struct {
	// Name is that of the file, and of the format.
	Name    string
	Version int
	// Bare: files without a first line that names the format are of it too.
	Bare bool
}

// header is the first line of a file.
type header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// File is appended to. One goroutine uses it.
type File struct {
	dir    string
	format Format
	max    int64 // bytes of both files
	disk   disk
	// file is the newest; nil until it is written to, and after it could not be
	// opened. Only size bytes of it count.
	file storage
	size int64
	// text is room for the next lines.
	text []byte
}

// maxKept bounds that.
const maxKept = 1 << 20

// disk is what is done with names, and storage with a file.
type disk struct {
	open   func(path string) (storage, error)
	rename func(from, to string) error
}

type storage interface {
	WriteAt(p []byte, at int64) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

var realDisk = disk{
	open:   func(path string) (storage, error) { return private.OpenFile(path, os.O_WRONLY|os.O_CREATE) },
	rename: os.Rename,
}

// Open reads what is there, oldest first, and makes ready to go on. At most
// limit bytes are kept on disk. Damage is left out and never an error; aside
// names the files that were put aside because they are of another format.
// Nothing is written before the first Append, so that a full disk keeps nobody
// from opening.
func Open(dir string, format Format, limit int64) (f *File, records [][]byte, aside []string, err error) {
	f = &File{dir: dir, format: format, max: limit, disk: realDisk}
	for _, name := range []string{format.Name + ".1", format.Name} {
		more, whole, ok, err := f.read(name)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", format.Name, err)
		}
		if !ok {
			if err := os.Rename(f.path(name), f.path(name+".aside")); err != nil {
				return nil, nil, nil, fmt.Errorf("%s: %w", format.Name, err)
			}
			aside = append(aside, f.path(name+".aside"))
			more, whole = nil, 0
		}
		records, f.size = append(records, more...), whole
	}
	return f, records, aside, nil
}

func (f *File) path(name string) string { return filepath.Join(f.dir, name) }

// read reads the records of a file that are whole; the last of them ends at
// whole. ok is false if they are not of our format.
func (f *File) read(name string) (records [][]byte, whole int64, ok bool, err error) {
	text, err := private.ReadState(f.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, false, err
	}
	for first := true; ; first = false {
		n := bytes.IndexByte(text[whole:], '\n')
		if n < 0 {
			return records, whole, true, nil
		}
		record, err := ParseLine(text[whole : whole+int64(n)])
		whole += int64(n) + 1
		if first && err == nil {
			isHeader, known := f.known(record)
			if !known {
				return nil, 0, false, nil
			}
			if isHeader {
				continue
			}
		}
		if err == nil {
			records = append(records, record)
		}
	}
}

// known judges the first line of a file.
func (f *File) known(record []byte) (isHeader, known bool) {
	var h header
	if json.Unmarshal(record, &h) != nil || h.Format == "" {
		return false, f.format.Bare
	}
	return true, h.Format == f.format.Name && h.Version <= f.format.Version
}

// ready opens the newest file behind what is whole of it.
func (f *File) ready() error {
	if f.file != nil {
		return nil
	}
	file, err := f.disk.open(f.path(f.format.Name))
	if err != nil {
		return err
	}
	if err := file.Truncate(f.size); err != nil {
		return errors.Join(err, file.Close())
	}
	f.file = file
	return nil
}

// TooLargeError says that records are larger than what is kept in one file.
// The others were written.
type TooLargeError struct {
	Records, Bytes int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%d records of %d bytes in all are larger than half of what is kept", e.Records, e.Bytes)
}

// Append writes records, as many at once as fit. It returns how many it is done
// with: after an error of the disk the rest can be tried again later. A record
// that never fits is left out, and told by a [TooLargeError].
func (f *File) Append(records ...[]byte) (done int, err error) {
	var large TooLargeError
	for done < len(records) {
		var size int64
		for n := done; n < len(records) && size < f.room(); n++ {
			size += int64(lineLen(records[n]))
		}
		text := slices.Grow(f.text[:0], int(size))
		n := done
		for n < len(records) && (n == done || int64(len(text)+lineLen(records[n])) <= f.room()) {
			text = AppendLine(text, records[n])
			n++
		}
		if f.text = text; cap(text) > maxKept {
			f.text = nil
		}
		if int64(len(text)) > f.room() { // one alone
			large.Records++
			large.Bytes += len(text)
		} else if err := f.write(text); err != nil {
			return done, err
		}
		done = n
	}
	if large.Records > 0 {
		return done, &large
	}
	return done, nil
}

// room is what fits into one file beside its header.
func (f *File) room() int64 { return f.max/2 - int64(len(f.header())) }

// write writes lines with one call. If it fails, none of them is there.
func (f *File) write(text []byte) error {
	if f.size > 0 && f.size+int64(len(text)) > f.max/2 {
		if err := f.rotate(); err != nil {
			return err
		}
	}
	if err := f.ready(); err != nil {
		return err
	}
	if f.size == 0 {
		text = append(f.header(), text...)
	}
	n, err := f.file.WriteAt(text, f.size)
	if err != nil {
		return errors.Join(err, f.file.Truncate(f.size))
	}
	f.size += int64(n)
	return nil
}

func (f *File) header() []byte {
	text, err := json.Marshal(header{f.format.Name, f.format.Version})
	if err != nil {
		panic(err) // a text and a number
	}
	return AppendLine(nil, text)
}

// rotate makes the newest file the older one. From then on nothing is written
// to it: a new one is opened when there is something to write.
func (f *File) rotate() error {
	if err := f.disk.rename(f.path(f.format.Name), f.path(f.format.Name+".1")); err != nil {
		return err
	}
	if f.file != nil {
		_ = f.file.Close() // what it holds was written
	}
	f.file, f.size = nil, 0
	return nil
}

// Close makes everything durable.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	return errors.Join(f.file.Sync(), f.file.Close())
}
