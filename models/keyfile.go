package models

import (
	"path"
	"strings"
)

// KindKeyFile is the kind of the files with keys that values name. It is observed, and its objects have
// no fields.
const KindKeyFile = "keyfile"

// KeyFileKey is the key of a file: "keyfile/etc/wireguard/wg0.key" of /etc/wireguard/wg0.key.
func KeyFileKey(file string) string { return KindKeyFile + path.Clean("/"+file) }

// KeyFile is the file of a key.
func KeyFile(key string) string { return strings.TrimPrefix(key, KindKeyFile) }
