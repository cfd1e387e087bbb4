package models

import (
	"path"
	"strings"
)

// KeyFileKey is the key of a file: "keyfile/etc/wireguard/wg0.key" of /etc/wireguard/wg0.key.
func KeyFileKey(file string) string { return KindKeyFile + path.Clean("/"+file) }

// KeyFilePath is the path of the file of a key.
func KeyFilePath(key string) string { return strings.TrimPrefix(key, KindKeyFile) }
