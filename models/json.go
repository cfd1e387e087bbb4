package models

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds nesting; no value needs more than five.
const maxDepth = 64

// node is a piece of JSON. The tree keeps what a decoder drops: doubled
// members, their order, and how numbers were written.
type node struct {
	// kind is the first character: { [ " t f n, and 0 for any number.
	kind    byte
	text    string // string: decoded; number: as written
	members []member
	items   []node
}

type member struct {
	name  string
	value node
}

// parser reads one JSON text.
type parser struct {
	data  string
	at    int
	depth int
	// room is for the members of the first objects.
	room []member
}

// usual is how many members most objects have.
const usual = 4

// rooms are used again: a tree is gone when its text is read, and there may be many texts.
var rooms = sync.Pool{New: func() any { return new([4 * usual]member) }}

// members is an empty list for those of an object.
func (p *parser) members() []member {
	if len(p.room) < usual {
		return make([]member, 0, usual)
	}
	m := p.room[:0:usual]
	p.room = p.room[usual:]
	return m
}

// syntaxError is where and why a text is no JSON.
type syntaxError struct {
	line, column int
	what         string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("not valid JSON at line %d:%d: %s", e.line, e.column, e.what)
}

// parseJSON makes a tree of a text, part of which lies in the room.
func parseJSON(data string, room []member) (node, error) {
	p := &parser{data: data, room: room}
	p.space()
	n, err := p.value()
	if err != nil {
		return node{}, err
	}
	if p.space(); p.at < len(p.data) {
		return node{}, p.fail("%s after the end of the value", p.here())
	}
	return n, nil
}

func (p *parser) fail(format string, args ...any) error {
	before := p.data[:min(p.at, len(p.data))]
	line := strings.Count(before, "\n")
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	return &syntaxError{line: line + 1, column: column + 1, what: fmt.Sprintf(format, args...)}
}

// here says what stands at the current position.
func (p *parser) here() string {
	if p.at >= len(p.data) {
		return "the text ends"
	}
	r, _ := utf8.DecodeRuneInString(p.data[p.at:])
	return "found " + strconv.QuoteRune(r)
}

func (p *parser) space() {
	for p.at < len(p.data) && strings.IndexByte(" \t\r\n", p.data[p.at]) >= 0 {
		p.at++
	}
}

// next reports whether c comes next, and takes it.
func (p *parser) next(c byte) bool {
	p.space()
	if p.at < len(p.data) && p.data[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) value() (node, error) {
	p.space()
	if p.at >= len(p.data) {
		return node{}, p.fail("the text ends where a value should be")
	}
	switch c := p.data[p.at]; {
	case c == '{', c == '[':
		if p.depth++; p.depth > maxDepth {
			return node{}, p.fail("nested more than %d deep", maxDepth)
		}
		defer func() { p.depth-- }()
		if p.at++; c == '{' {
			return p.object()
		}
		return p.array()
	case c == '"':
		s, err := p.str()
		return node{kind: '"', text: s}, err
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if strings.HasPrefix(p.data[p.at:], word) {
			p.at += len(word)
			return node{kind: word[0], text: word}, nil
		}
	}
	return node{}, p.fail("%s where a value should be", p.here())
}

func (p *parser) object() (node, error) {
	n := node{kind: '{'}
	if p.next('}') {
		return n, nil
	}
	n.members = p.members()
	for {
		p.space()
		if p.at >= len(p.data) || p.data[p.at] != '"' {
			return n, p.fail("%s where a field name in double quotes should be", p.here())
		}
		name, err := p.str()
		if err != nil {
			return n, err
		}
		if !p.next(':') {
			return n, p.fail("%s where a colon should be", p.here())
		}
		v, err := p.value()
		if err != nil {
			return n, err
		}
		n.members = append(n.members, member{name, v})
		if p.next('}') {
			return n, nil
		}
		if !p.next(',') {
			return n, p.fail("%s where a comma or } should be", p.here())
		}
	}
}

func (p *parser) array() (node, error) {
	n := node{kind: '['}
	if p.next(']') {
		return n, nil
	}
	for {
		v, err := p.value()
		if err != nil {
			return n, err
		}
		n.items = append(n.items, v)
		if p.next(']') {
			return n, nil
		}
		if !p.next(',') {
			return n, p.fail("%s where a comma or ] should be", p.here())
		}
	}
}

func (p *parser) number() (node, error) {
	start := p.at
	if p.data[p.at] == '-' {
		p.at++
	}
	zero := p.at < len(p.data) && p.data[p.at] == '0'
	if n := p.digits(); n == 0 || zero && n > 1 {
		return node{}, p.fail("a number has digits and no leading zero")
	}
	if p.at < len(p.data) && p.data[p.at] == '.' {
		if p.at++; p.digits() == 0 {
			return node{}, p.fail("%s where digits should be", p.here())
		}
	}
	if p.at < len(p.data) && (p.data[p.at] == 'e' || p.data[p.at] == 'E') {
		if p.at++; p.at < len(p.data) && (p.data[p.at] == '+' || p.data[p.at] == '-') {
			p.at++
		}
		if p.digits() == 0 {
			return node{}, p.fail("%s where digits should be", p.here())
		}
	}
	return node{kind: '0', text: p.data[start:p.at]}, nil
}

func (p *parser) digits() (n int) {
	for ; p.at < len(p.data) && '0' <= p.data[p.at] && p.data[p.at] <= '9'; n++ {
		p.at++
	}
	return n
}

// str reads a string; the position is at its opening quote.
func (p *parser) str() (string, error) {
	p.at++
	start := p.at
	for p.at < len(p.data) && p.data[p.at] != '"' && p.data[p.at] != '\\' && p.data[p.at] >= ' ' {
		p.at++
	}
	if p.at < len(p.data) && p.data[p.at] == '"' { // the usual case: nothing to decode
		s := p.data[start:p.at]
		if p.at++; !utf8.ValidString(s) {
			return "", p.fail("the string is not UTF-8")
		}
		return s, nil
	}
	b := append(make([]byte, 0, 2*(p.at-start)+16), p.data[start:p.at]...)
	for p.at < len(p.data) {
		switch c := p.data[p.at]; {
		case c == '"':
			if p.at++; !utf8.Valid(b) {
				return "", p.fail("the string is not UTF-8")
			}
			return string(b), nil
		case c < ' ':
			return "", p.fail("control character %q in a string; write it as an escape", c)
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			b = utf8.AppendRune(b, r)
		default:
			b = append(b, c)
			p.at++
		}
	}
	return "", p.fail("the text ends within a string")
}

// escape reads what a backslash begins.
func (p *parser) escape() (rune, error) {
	if p.at+1 >= len(p.data) {
		p.at = len(p.data)
		return 0, p.fail("the text ends within a string")
	}
	c := p.data[p.at+1]
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		p.at += 2
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	r, ok := p.unicode()
	if !ok {
		return 0, p.fail("unknown escape in a string")
	}
	if utf16.IsSurrogate(r) {
		low, ok := p.unicode()
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return 0, p.fail("half a surrogate pair in a string")
		}
	}
	return r, nil
}

// unicode reads \uXXXX.
func (p *parser) unicode() (rune, bool) {
	if p.at+6 > len(p.data) || p.data[p.at:p.at+2] != `\u` {
		return 0, false
	}
	u, err := strconv.ParseUint(p.data[p.at+2:p.at+6], 16, 16)
	if err != nil {
		return 0, false
	}
	p.at += 6
	return rune(u), true
}

// show says shortly what was found, for messages.
func (n node) show() string {
	switch n.kind {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		if utf8.RuneCountInString(n.text) > 40 {
			return strconv.Quote(string([]rune(n.text)[:40])) + "…"
		}
		return strconv.Quote(n.text)
	}
	return n.text
}
