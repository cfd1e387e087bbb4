package safetext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line is a text that stays on its line: every character that is a control, a
// format (those that change the direction of writing, or that nobody sees), or the
// end of a line is shown as an escape such as \n, \x1b or \u202e.
func Line(s string) string { return escaped(s, "") }

// Text is Line for what has several lines: ends of lines and tabs stay.
func Text(s string) string { return escaped(s, "\n\t") }

// JSON writes the same characters as JSON does with control characters, which means
// the same to who decodes it. The text must be JSON.
func JSON(text []byte) []byte {
	s := string(text)
	if clean(s, "\n\t\r") {
		return text
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case strings.ContainsRune("\n\t\r", r) || !unsafe(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return []byte(b.String())
}

func escaped(s, keep string) string {
	if clean(s, keep) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strings.ContainsRune(keep, r) || !unsafe(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

func clean(s, keep string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return unsafe(r) && !strings.ContainsRune(keep, r) }) < 0
}

// unsafe reports whether a terminal or a reader may take the character for something
// else than a letter.
func unsafe(r rune) bool {
	if r < 0x80 {
		return r < 0x20 || r == 0x7f
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}
