package safetext

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
)

// masked stands for a secret.
const masked = "***"

// secretWord is in the name of what is secret.
//
//nolint:gosec // it is no secret, it finds them
const secretWord = `(?:passw(?:or)?d|passphrase|pwd|secret|token|credential|private[_-]?key|api[_-]?key|access[_-]?key|auth[_-]?key|encryption[_-]?key)`

// The secrets that can be told by what is written.
var (
	urlPassword = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^/?#\s:@"'<>\\]*:)[^/?#\s"'<>\\]*@`)
	urlToken    = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/?#\s:@"'<>\\]{20,}@`)
	secretName  = regexp.MustCompile(`(?i)` + secretWord)
	secretFlag  = regexp.MustCompile(`(?i)^--?[\w.-]*` + secretWord + `[\w.-]*$`)

	// What follows a name: --password=x, password: x, TOKEN="x", --password x.
	named  = regexp.MustCompile(`(?i)([\w.-]*` + secretWord + `[\w.-]*\\*["']?\s*[=:]\s*)(\\*"[^"]*"|'[^']*'|[^\s"',;&{}\[\]\\]+)`)
	spaced = regexp.MustCompile(`(?i)((?:^|\s)--?[\w.-]*` + secretWord + `[\w.-]*\s+)("[^"]*"|'[^']*'|[^\s"'-][^\s"']*)`)
	scheme = regexp.MustCompile(`(?i)(\b(?:authorization|proxy-authorization)["']?\s*[=:]\s*["']?(?:[a-z]+\s+)?)[^\s"',]+`)
	bearer = regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[a-z0-9._~+/=-]{16,}`)

	// What is a secret whatever stands before it.
	shapes = regexp.MustCompile(`(?s:-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [A-Z0-9 ]*-----|$))` +
		`|\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?` + // JSON web tokens
		`|\b(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[A-Z0-9]{16}\b` +
		`|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bxox[abeprs]-[\w-]{10,}` +
		`|\bsk-[\w-]{20,}|\bAIza[\w-]{35}|\bya29\.[\w-]{20,}`)
)

// URLs masks the passwords in addresses such as http://user:password@host.
func URLs(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	return urlToken.ReplaceAllString(urlPassword.ReplaceAllString(s, "${1}"+masked+"@"), "${1}"+masked+"@")
}

// Mask masks what looks like a secret: passwords in addresses, what follows the name
// of a secret, keys and tokens of well-known shapes. A text that is JSON is masked by
// its fields.
func Mask(s string) string {
	if t := strings.TrimSpace(s); strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[") {
		if out, err := MaskJSON([]byte(t)); err == nil {
			return string(out)
		}
	}
	s = shapes.ReplaceAllLiteralString(URLs(s), masked)
	s = scheme.ReplaceAllString(s, "${1}"+masked)
	s = bearer.ReplaceAllString(s, "${1}"+masked)
	s = named.ReplaceAllString(s, "${1}"+masked)
	return spaced.ReplaceAllString(s, "${1}"+masked)
}

// maxDepth bounds JSON within JSON.
const maxDepth = 1000

// MaskJSON masks a text of JSON: what has the name of a secret, and in all other
// texts what Mask does. Fields keep their order.
func MaskJSON(text []byte) ([]byte, error) {
	m := masker{in: json.NewDecoder(bytes.NewReader(text))}
	m.in.UseNumber()
	if err := m.value("", false, 0); err != nil {
		return nil, err
	}
	if _, err := m.in.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return m.out.Bytes(), nil
}

type masker struct {
	in  *json.Decoder
	out bytes.Buffer
}

// value copies one value; secret says that all of it is one. before is the element
// of a list that stands before it.
func (m *masker) value(before string, secret bool, depth int) error {
	if depth > maxDepth {
		return errors.New("nested too deep")
	}
	token, err := m.in.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return m.object(secret, depth)
		}
		return m.list(secret, depth)
	case string:
		return m.text(v, secret || secretFlag.MatchString(before))
	case json.Number:
		if secret {
			return m.put(masked)
		}
	}
	return m.put(token)
}

func (m *masker) text(s string, secret bool) error {
	if secret && s != "" {
		return m.put(masked)
	}
	return m.put(Mask(s))
}

func (m *masker) object(secret bool, depth int) error {
	m.out.WriteByte('{')
	for n := 0; m.in.More(); n++ {
		if n > 0 {
			m.out.WriteByte(',')
		}
		name, err := m.in.Token()
		if err != nil {
			return err
		}
		key, _ := name.(string)
		if err := m.put(key); err != nil {
			return err
		}
		m.out.WriteByte(':')
		if err := m.value("", secret || secretName.MatchString(key), depth+1); err != nil {
			return err
		}
	}
	m.out.WriteByte('}')
	_, err := m.in.Token()
	return err
}

func (m *masker) list(secret bool, depth int) error {
	m.out.WriteByte('[')
	before := ""
	for n := 0; m.in.More(); n++ {
		if n > 0 {
			m.out.WriteByte(',')
		}
		at := m.out.Len()
		if err := m.value(before, secret, depth+1); err != nil {
			return err
		}
		if json.Unmarshal(m.out.Bytes()[at:], &before) != nil {
			before = ""
		}
	}
	m.out.WriteByte(']')
	_, err := m.in.Token()
	return err
}

func (m *masker) put(v any) error {
	enc := json.NewEncoder(&m.out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	m.out.Truncate(m.out.Len() - 1) // the end of the line
	return err
}
