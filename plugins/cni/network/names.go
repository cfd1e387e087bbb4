package network

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// OwnPrefix begins the names of all values of ours, and of no operator's.
const OwnPrefix = "cni:"

// SharedName begins the names of a network's values.
func SharedName(network string) string { return OwnPrefix + network }

// Numbered names the first, second and so on of several.
func Numbered(name string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, i+1)
}

// ID names an attachment in the keys of its values: a digest of what it is called.
func ID(attachment string) string {
	sum := sha256.Sum256([]byte(attachment))
	return hex.EncodeToString(sum[:digestLen/2])
}

const digestLen = 16

// AttachmentOf takes the name of a value apart: cni:<network>:<id>…, or without a
// id if the attachments of a network share it.
func AttachmentOf(name string) (network, id string, ours bool) {
	rest, ours := strings.CutPrefix(name, SharedName(""))
	network, rest, own := strings.Cut(rest, ":")
	if !ours || !own || len(rest) < digestLen || len(rest) > digestLen && !strings.ContainsRune("-/", rune(rest[digestLen])) ||
		strings.Trim(rest[:digestLen], "0123456789abcdef") != "" {
		return "", "", ours
	}
	return network, rest[:digestLen], true
}

// SharedBy reports whether the name is of what the attachments of a network share.
func SharedBy(name, network string) bool {
	rest, ours := strings.CutPrefix(name, SharedName(network))
	return ours && (rest == "" || rest[0] == ':' || rest[0] == '/' || rest[0] == '-' && strings.Trim(rest[1:], "0123456789") == "")
}

// HostEnd is the host's end of the cable of an attachment.
func HostEnd(inside string) string { return "pv" + inside[strings.LastIndexByte(inside, ':')+1:][:12] }
