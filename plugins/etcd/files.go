package etcd

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/plumb-net/plumb/plugins/private"
)

// randomID is 128 random bits in hex.
func randomID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// loadUUID reads the UUID of the state directory and makes one at the first
// start.
func loadUUID(dir string) (string, error) {
	path := filepath.Join(dir, "uuid")
	data, err := private.ReadState(path)
	if err == nil {
		if id := strings.TrimSpace(string(data)); id != "" {
			return id, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("uuid of the state directory: %w", err)
	}
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40 // version 4: random
	b[8] = b[8]&0x3f | 0x80
	id := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	if err := private.WriteFile(path, []byte(id+"\n")); err != nil {
		return "", fmt.Errorf("uuid of the state directory: %w", err)
	}
	return id, nil
}
