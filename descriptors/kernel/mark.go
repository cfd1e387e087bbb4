package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/fnv"
	"strings"
)

// maxMark is what fits into a link's alias.
const maxMark = 255

// hashedTail is the sign that a mark was cut, and half a digest of the whole.
const hashedTail = 1 + 32

// Mark is the full mark of an object, which names the agent and the key:
// "plumb:host7:interface/web". One that is too long for an alias ends in a
// digest instead; no name holds the ~ before it.
func Mark(label, key string) string { return markWithin(maxMark, label, key) }

// Comment is the mark of a table of nftables, which has less room.
func Comment(label, key string) string { return markWithin(MaxComment, label, key) }

func markWithin(size int, label, key string) string {
	whole := markPrefix(label) + key
	if len(whole) <= size {
		return whole
	}
	sum := sha256.Sum256([]byte(whole))
	return whole[:size-hashedTail] + "~" + hex.EncodeToString(sum[:16])
}

// MarkedKey reports whether a mark is of this agent, and the key that it names.
// The key is empty when the mark was cut: then only a comparison tells.
func MarkedKey(label, mark string) (key string, ours bool) {
	key, ours = strings.CutPrefix(mark, markPrefix(label))
	if strings.Contains(key, "~") {
		key = ""
	}
	return key, ours
}

// IsMark reports whether an alias is the mark of some agent.
func IsMark(alias string) bool { return strings.HasPrefix(alias, "plumb:") }

func markPrefix(label string) string { return "plumb:" + label + ":" }

// Group is the link group in which all links of the agent are born. It is no
// proof, since anybody may use the number; it tells a link of ours whose alias
// is not yet set from one that somebody else made.
func Group(label string) uint32 {
	// The highest bit would make it negative in some tools.
	return 0x40000000 | hash(label)&0x3fffffff
}

// firstProtocol begins a range of route protocol numbers that no known daemon uses.
const firstProtocol, protocols = 200, 48

// Protocol is the number that routes and rules of the agent carry. Like the
// group it is only a hint: two labels may share one.
func Protocol(label string) uint8 { return uint8(firstProtocol + hash(label)%protocols) }

// Handle is the number of the queueing disciplines that the agent sets. It is no proof, since
// anybody may use the number, of those that people and the kernel choose it is none.
func Handle(label string) uint16 { return 0x7000 | uint16(hash(label)&0xfff) }

// Digest is the mark of a filter of a key, for which the kernel has 16 bytes.
func Digest(label, key string) string {
	sum := sha256.Sum256([]byte(markPrefix(label) + key))
	return hex.EncodeToString(sum[:16])
}

// IsMarked reports whether the number is that of some agent.
func IsMarked(protocol uint8) bool {
	return protocol >= firstProtocol && protocol-firstProtocol < protocols
}

func hash(s string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(s)) // never fails
	return h.Sum32()
}
