package private

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// maxSecret is far more than a key or a password has, in bytes.
const maxSecret = 4096

// ReadSecret reads a file that only its owner may read, who is root or who runs this
// program. The error does not tell what is in it.
func ReadSecret(file string) (string, error) {
	if _, err := checkWay(file); err != nil {
		return "", err
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat() // of what was opened: another may stand there by now
	if err != nil {
		return "", err
	}
	switch {
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is no regular file", file)
	case !trusted(owner(info)):
		return "", fmt.Errorf("%s belongs to user %d; it must be root's", file, owner(info))
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("others may read %s (mode %04o); close it with chmod 600", file, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxSecret {
		return "", fmt.Errorf("%s has more than %d bytes", file, maxSecret)
	}
	return string(bytes.TrimSpace(text)), nil
}
