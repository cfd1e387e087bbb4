package models

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Encode writes a value as JSON in its one canonical form: names as in
// models.proto, fields in their order there, no white space, unset fields left
// out. It is the form of the protobuf encoder, whose white space varies on purpose and
// which takes four times as long; a test holds the two together.
func Encode(msg proto.Message) []byte {
	return appendMessage(make([]byte, 0, 128), msg.ProtoReflect())
}

func appendMessage(out []byte, m protoreflect.Message) []byte {
	out = append(out, '{')
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) {
			continue
		}
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), fd.Name()...), '"', ':')
		switch v := m.Get(fd); {
		case fd.IsMap():
			out = appendMap(out, fd, v.Map())
		case fd.IsList():
			out = append(out, '[')
			for i := range v.List().Len() {
				if i > 0 {
					out = append(out, ',')
				}
				out = appendSingle(out, fd, v.List().Get(i))
			}
			out = append(out, ']')
		default:
			out = appendSingle(out, fd, v)
		}
	}
	return append(out, '}')
}

// appendMap writes a map with the keys sorted; all keys of ours are strings.
func appendMap(out []byte, fd protoreflect.FieldDescriptor, m protoreflect.Map) []byte {
	keys := make([]protoreflect.MapKey, 0, m.Len())
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool { keys = append(keys, k); return true })
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
	out = append(out, '{')
	for i, k := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendText(out, k.String()), ':')
		out = appendSingle(out, fd.MapValue(), m.Get(k))
	}
	return append(out, '}')
}

// appendSingle writes what readSingle reads.
func appendSingle(out []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return appendMessage(out, v.Message())
	case protoreflect.StringKind:
		return appendText(out, v.String())
	case protoreflect.BoolKind:
		return strconv.AppendBool(out, v.Bool())
	case protoreflect.Int32Kind:
		return strconv.AppendInt(out, v.Int(), 10)
	case protoreflect.Uint32Kind:
		return strconv.AppendUint(out, v.Uint(), 10)
	case protoreflect.Uint64Kind: // in quotes: JavaScript's numbers are floats
		return append(strconv.AppendUint(append(out, '"'), v.Uint(), 10), '"')
	}
	panic(fmt.Sprintf("models: encode %s: no message of ours has a field of type %s", fd.FullName(), fd.Kind()))
}

// appendText writes a string. Only what JSON demands is escaped.
func appendText(out []byte, s string) []byte {
	if !utf8.ValidString(s) {
		panic(fmt.Sprintf("models: encode %q: not UTF-8", s)) // no decoder lets it in
	}
	out = append(out, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		out = append(out, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\b':
			out = append(out, '\\', 'b')
		case '\f':
			out = append(out, '\\', 'f')
		case '\n':
			out = append(out, '\\', 'n')
		case '\r':
			out = append(out, '\\', 'r')
		case '\t':
			out = append(out, '\\', 't')
		default:
			out = append(out, '\\', 'u', '0', '0', "01"[c>>4], "0123456789abcdef"[c&15])
		}
	}
	return append(append(out, s[start:]...), '"')
}

// Digest names the content of a value: equal values, equal digests.
func Digest(msg proto.Message) string {
	sum := sha256.Sum256(Encode(msg))
	return hex.EncodeToString(sum[:16])
}
