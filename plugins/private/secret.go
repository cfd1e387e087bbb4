package private

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// maxSecret is far more than a key or a password has, in bytes.
const maxSecret = 4096

// ReadSecret reads a file that only its owner may read, who is root or who runs this
// program. The error does not tell what is in it.
func ReadSecret(file string) (string, error) {
	text, err := ReadSecretFile(file, maxSecret)
	return string(bytes.TrimSpace(text)), err
}

// ReadSecretFile is ReadSecret for what may have up to limit bytes, as they are.
func ReadSecretFile(file string, limit int64) ([]byte, error) {
	return readChecked(file, limit, func(info fs.FileInfo) error {
		if err := checkOwner(file, info); err != nil {
			return err
		}
		return checkClosed(file, info)
	})
}

// ReadTrusted reads a file that anybody may see and nobody but root, or who runs this
// program, can change or put another in the place of.
func ReadTrusted(file string, limit int64) ([]byte, error) {
	return readChecked(file, limit, func(info fs.FileInfo) error {
		if err := checkOwner(file, info); err != nil {
			return err
		}
		if writable(info) {
			return fmt.Errorf("others may write to %s (mode %04o); close it with chmod go-w", file, info.Mode().Perm())
		}
		return nil
	})
}

// ReadClosed reads a file that only its owner may read. Who could put another in its place
// is not asked, as ssh does not of its keys: it is for the files of a user.
func ReadClosed(file string, limit int64) ([]byte, error) {
	return read(file, limit, func(info fs.FileInfo) error { return checkClosed(file, info) })
}

func readChecked(file string, limit int64, check func(fs.FileInfo) error) ([]byte, error) {
	if _, err := checkWay(file); err != nil {
		return nil, err
	}
	return read(file, limit, check)
}

// read reads a regular file of at most limit bytes that the check lets pass. It never
// waits for the writer of a pipe.
func read(file string, limit int64, check func(fs.FileInfo) error) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat() // of what was opened: another may stand there by now
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", file)
	}
	if err := check(info); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", file, limit)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

func checkOwner(file string, info fs.FileInfo) error {
	if uid := owner(info); !trusted(uid) {
		return fmt.Errorf("%s belongs to user %d; it must be root's", file, uid)
	}
	return nil
}

func checkClosed(file string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("others may read %s (mode %04o); close it with chmod 600", file, info.Mode().Perm())
	}
	return nil
}
