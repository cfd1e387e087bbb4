package jsontext

import (
	"bytes"
	"strconv"
)

// Reader reads the text of objects as Object writes it: no white space, and nothing escaped.
// That is nearly all of the mass that is read; what it cannot read, see Done, is left to
// encoding/json. So is an object with a name that the reader does not know. Whatever it
// reads encoding/json reads alike.
type Reader struct {
	text []byte
	at   int
	bad  bool
}

// NewReader reads a text, which must not be changed meanwhile.
func NewReader(text []byte) *Reader { return &Reader{text: text} }

// Done reports whether all was read, and all could be. If not, what was returned counts for
// nothing.
func (r *Reader) Done() bool { return !r.bad && r.at == len(r.text) }

// Open begins an object.
func (r *Reader) Open() { r.take('{') }

// Field is the name of the next field of the object, whose value is to be read next, or false
// at its end.
func (r *Reader) Field() (name []byte, more bool) {
	switch {
	case r.next() == '}':
		r.at++
		return nil, false
	case r.next() == ',' && r.at > 0 && r.text[r.at-1] != '{' && r.text[r.at-1] != ',':
		r.at++
	case r.at == 0 || r.text[r.at-1] != '{':
		r.bad = true
	}
	name = r.quoted()
	r.take(':')
	return name, !r.bad
}

// String reads a text.
func (r *Reader) String() string { return string(r.quoted()) }

// Int reads a number without a fraction.
func (r *Reader) Int() int64 {
	n, err := strconv.ParseInt(string(r.number()), 10, 64)
	r.bad = r.bad || err != nil
	return n
}

// Uint reads a number that is not negative.
func (r *Reader) Uint() uint64 {
	n, err := strconv.ParseUint(string(r.number()), 10, 64)
	r.bad = r.bad || err != nil
	return n
}

// Raw reads a value of any type and returns a copy of its text.
func (r *Reader) Raw() []byte {
	start := r.at
	r.skip(0)
	if r.bad {
		return nil
	}
	return bytes.Clone(r.text[start:r.at])
}

// maxDepth bounds how deep values lie in each other.
const maxDepth = 100

func (r *Reader) skip(depth int) {
	if depth > maxDepth {
		r.bad = true
	}
	if r.bad {
		return
	}
	switch c := r.next(); {
	case c == '"':
		r.quoted()
	case c == '{':
		for r.Open(); ; r.skip(depth + 1) {
			if _, more := r.Field(); !more {
				return
			}
		}
	case c == '[':
		r.at++
		for first := true; r.next() != ']' && !r.bad; first = false {
			if !first {
				r.take(',')
			}
			r.skip(depth + 1)
		}
		r.take(']')
	case c == 't':
		r.word("true")
	case c == 'f':
		r.word("false")
	default:
		r.number()
	}
}

// next is the byte to be read next, 0 at the end.
func (r *Reader) next() byte {
	if r.bad || r.at == len(r.text) {
		return 0
	}
	return r.text[r.at]
}

func (r *Reader) take(c byte) {
	if r.next() != c {
		r.bad = true
		return
	}
	r.at++
}

func (r *Reader) word(w string) {
	if r.bad || !bytes.HasPrefix(r.text[r.at:], []byte(w)) {
		r.bad = true
		return
	}
	r.at += len(w)
}

// quoted is what stands between two quotes; it lies in the text.
func (r *Reader) quoted() []byte {
	r.take('"')
	for start := r.at; ; r.at++ {
		switch c := r.next(); {
		case c == '"':
			r.at++
			return r.text[start : r.at-1]
		case c < ' ' || c > '~' || c == '\\':
			r.bad = true
			return nil
		}
	}
}

// number is the text of an integer; fractions are rare.
func (r *Reader) number() []byte {
	start := r.at
	if r.next() == '-' {
		r.at++
	}
	first := r.at
	for c := r.next(); '0' <= c && c <= '9'; c = r.next() {
		r.at++
	}
	digits := r.text[first:r.at]
	if c := r.next(); len(digits) == 0 || len(digits) > 1 && digits[0] == '0' || c == '.' || c == 'e' || c == 'E' {
		r.bad = true
		return nil
	}
	return r.text[start:r.at]
}
