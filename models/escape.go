package models

import (
	"fmt"
	"strings"
)

const hexDigits = "0123456789ABCDEF"

// Escape makes a name of any text: what the name rule does not allow becomes
// %XX, byte by byte. Different texts have different names.
func Escape(s string) string {
	n := escapes(s)
	if n == 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 2*n)
	for i := 0; i < len(s); i++ {
		if nameByte(s[i], i == 0) {
			b.WriteByte(s[i])
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hexDigits[s[i]>>4])
		b.WriteByte(hexDigits[s[i]&15])
	}
	return b.String()
}

// escapes counts the bytes that need one.
func escapes(s string) (n int) {
	for i := 0; i < len(s); i++ {
		if !nameByte(s[i], i == 0) {
			n++
		}
	}
	return n
}

// Unescape takes a name back to the text. It refuses what Escape cannot have
// made, so that no two names mean the same.
func Unescape(name string) (string, error) {
	var b strings.Builder
	b.Grow(len(name))
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c != '%' {
			b.WriteByte(c)
			continue
		}
		if i+2 >= len(name) {
			return "", fmt.Errorf("%q ends within an escape; %% is written %%25", name)
		}
		hi, lo := strings.IndexByte(hexDigits, name[i+1]), strings.IndexByte(hexDigits, name[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("%q is no escape; it is %% and two digits of 0-9 A-F, and %% itself is %%25", name[i:i+3])
		}
		b.WriteByte(byte(hi<<4 | lo))
		i += 2
	}
	text := b.String()
	if right := Escape(text); right != name {
		return "", fmt.Errorf("%q must be written %q", name, right)
	}
	return text, nil
}

// nameByte reports whether the name rule allows the byte.
func nameByte(c byte, first bool) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_':
		return true
	case c == '.', c == ':', c == '-':
		return !first
	}
	return false
}
