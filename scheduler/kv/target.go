package kv

import (
	"slices"
	"strings"
)

// Under reports whether one of the targets covers the key; none cover all.
func Under(k Key, targets []Key) bool {
	return len(targets) == 0 || slices.ContainsFunc(targets, func(t Key) bool { return Covers(t, k) })
}

// Covers reports whether a target, as callers name what they mean, means the key.
func Covers(target, k Key) bool {
	return target == k || IsPrefix(target) && strings.HasPrefix(string(k), string(target))
}

// IsPrefix reports whether a target means all below it: it ends in a slash, or is
// empty, which means all there is.
func IsPrefix(target Key) bool { return target == "" || strings.HasSuffix(string(target), "/") }
