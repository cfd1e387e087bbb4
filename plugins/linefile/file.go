package linefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// File is open for appending. One goroutine uses it.
type File struct {
	dir    string
	format Format
	max    int64 // bytes of both files
	file   *os.File
	size   int64
}

// Open reads what is there, oldest first, and makes ready to go on. At most
// limit bytes are kept on disk. Damage is left out and never an error; aside
// names the files that were put aside because they cannot be read.
func Open(dir string, format Format, limit int64) (f *File, records [][]byte, aside []string, err error) {
	f = &File{dir: dir, format: format, max: limit}
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
	if err := f.open(); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", format.Name, err)
	}
	return f, records, aside, nil
}

func (f *File) path(name string) string { return filepath.Join(f.dir, name) }

// read reads the records of a file that are whole; the last of them ends at
// whole. ok is false if they are not of our format.
func (f *File) read(name string) (records [][]byte, whole int64, ok bool, err error) {
	text, err := os.ReadFile(f.path(name))
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

// open opens the newest file behind what is whole of it.
func (f *File) open() (err error) {
	if f.file, err = os.OpenFile(f.path(f.format.Name), os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := f.file.Truncate(f.size); err != nil {
		return errors.Join(err, f.file.Close())
	}
	return nil
}

// Append writes records with one call. If it fails, none of them is there.
func (f *File) Append(records ...[]byte) error {
	var text []byte
	for _, r := range records {
		text = AppendLine(text, r)
	}
	if f.size > 0 && f.size+int64(len(text)) > f.max/2 {
		if err := f.rotate(); err != nil {
			return err
		}
	}
	if f.size == 0 {
		text = append(f.header(), text...)
	}
	if int64(len(text)) > f.max/2 {
		return fmt.Errorf("%d bytes at once do not fit", len(text))
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

// rotate begins a new file.
func (f *File) rotate() error {
	if err := os.Rename(f.path(f.format.Name), f.path(f.format.Name+".1")); err != nil {
		return err
	}
	old := f.file
	f.size = 0
	if err := f.open(); err != nil {
		f.file = old
		return err
	}
	return old.Close()
}

// Close makes everything durable.
func (f *File) Close() error { return errors.Join(f.file.Sync(), f.file.Close()) }
