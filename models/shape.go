package models

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// readShape fills a message from the JSON object that it should be, and finds what is
// wrong with that: unknown and doubled fields, wrong types, several of what excludes
// itself. Where something is found the message is not to be used.
func readShape(n node, m protoreflect.Message, path string, f *findings) {
	md := m.Descriptor()
	type field struct {
		protoreflect.FieldDescriptor
		as   string
		null bool
	}
	written := make([]field, 0, min(len(n.members), md.Fields().Len()))
	for _, member := range n.members {
		fd := fieldByName(md, member.name)
		at := join(path, member.name)
		if fd == nil {
			f.add(at, "unknown field%s", hint(md, member.name))
			continue
		}
		if i := slices.IndexFunc(written, func(w field) bool { return w.FieldDescriptor == fd }); i >= 0 {
			if first := written[i].as; first == member.name {
				f.add(at, "written twice; keep one")
			} else {
				f.add(at, "written twice, also as %s; keep one", first)
			}
			continue
		}
		null := member.value.kind == 'n' // that means unset
		if one := fd.ContainingOneof(); one != nil && !one.IsSynthetic() && !null {
			if i := slices.IndexFunc(written, func(w field) bool { return !w.null && w.ContainingOneof() == one }); i >= 0 {
				f.add(path, "%s and %s: only one %s", written[i].Name(), fd.Name(), oneofWord(one))
				null = true // the first one counts
			}
		}
		written = append(written, field{fd, member.name, null})
		if null {
			continue
		}
		readField(member.value, m, fd, at, f)
	}
}

// oneofWord says what only one of may be named.
func oneofWord(one protoreflect.OneofDescriptor) string {
	switch one.FullName() {
	case "plumb.v1.Interface.link":
		return "link type"
	case "plumb.v1.Namespace.in":
		return "namespace"
	}
	return string(one.Name())
}

func readField(n node, m protoreflect.Message, fd protoreflect.FieldDescriptor, path string, f *findings) {
	switch {
	case fd.IsMap():
		readMap(n, m, fd, path, f)
	case fd.IsList():
		if n.kind != '[' {
			f.add(path, "must be a list, not %s%s", n.show(), listHint(n))
			return
		}
		for i, item := range n.items {
			list := m.Mutable(fd).List()
			list.Append(readSingle(item, fd, list.NewElement, fmt.Sprintf("%s[%d]", path, i), f))
		}
	default:
		v := readSingle(n, fd, func() protoreflect.Value { return m.NewField(fd) }, path, f)
		m.Set(fd, v)
	}
}

func listHint(n node) string {
	if n.kind == '"' {
		return "; write [" + n.show() + "]"
	}
	return ""
}

func readMap(n node, m protoreflect.Message, fd protoreflect.FieldDescriptor, path string, f *findings) {
	if n.kind != '{' {
		f.add(path, "must be an object, not %s", n.show())
		return
	}
	for _, member := range n.members {
		at := join(path, member.name)
		all, key := m.Mutable(fd).Map(), protoreflect.ValueOfString(member.name).MapKey()
		if all.Has(key) {
			f.add(at, "written twice; keep one")
			continue
		}
		all.Set(key, readSingle(member.value, fd.MapValue(), all.NewValue, at, f))
	}
}

// readSingle reads one value; of what is wrong it returns the type's zero. fresh makes a
// new one.
func readSingle(n node, fd protoreflect.FieldDescriptor, fresh func() protoreflect.Value, path string, f *findings) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		v := fresh()
		if n.kind != '{' {
			f.add(path, "must be an object, not %s", n.show())
			return v
		}
		readShape(n, v.Message(), path, f)
		return v
	case protoreflect.StringKind:
		if n.kind != '"' {
			f.add(path, "must be a string, not %s%s", n.show(), quoteHint(n))
			return fresh()
		}
		return protoreflect.ValueOfString(n.text)
	case protoreflect.BoolKind:
		if n.kind != 't' && n.kind != 'f' {
			f.add(path, "must be true or false, not %s", n.show())
		}
		return protoreflect.ValueOfBool(n.kind == 't')
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(readNumber(n, math.MinInt32, math.MaxInt32, path, f)))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(readNumber(n, 0, math.MaxUint32, path, f)))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(readNumber(n, 0, math.MaxUint64, path, f))
	default:
		f.add(path, "cannot be written") // a type that no message of ours has
		return fresh()
	}
}

func quoteHint(n node) string {
	switch n.kind {
	case '0', 't', 'f':
		return "; put it in quotes"
	}
	return ""
}

// readNumber accepts what the protobuf JSON mapping accepts: a whole number,
// also in quotes, also as 1.5e3. A negative one comes as its two's complement.
func readNumber(n node, low int64, high uint64, path string, f *findings) uint64 {
	if n.kind == '0' || n.kind == '"' && plainNumber(n.text) {
		if v, ok := wholeBetween(n.text, low, high); ok {
			return v
		}
	}
	f.add(path, "must be a whole number from %d to %d, not %s", low, high, n.show())
	return 0
}

func plainNumber(s string) bool {
	p := &parser{data: s}
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	_, err := p.number()
	return err == nil && p.at == len(s)
}

func wholeBetween(s string, low int64, high uint64) (v uint64, ok bool) {
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return u, u <= high
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return uint64(i), i >= low && (i < 0 || uint64(i) <= high)
	}
	if !strings.ContainsAny(s, ".eE") {
		return 0, false
	}
	// Beyond 2^53 a float no longer reports whether it is whole.
	x, err := strconv.ParseFloat(s, 64)
	ok = err == nil && x == math.Trunc(x) && math.Abs(x) <= 1<<53 && x >= float64(low) && x <= float64(high)
	if !ok {
		return 0, false
	}
	return uint64(int64(x)), true
}

// fieldByName knows both spellings: mac_address and macAddress.
func fieldByName(md protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if fd := md.Fields().ByTextName(name); fd != nil {
		return fd
	}
	return md.Fields().ByJSONName(name)
}

// hint names the field that was probably meant, here or one level deeper.
func hint(md protoreflect.MessageDescriptor, name string) string {
	fields := md.Fields()
	if fields.Len() == 0 {
		return "; there are no fields here"
	}
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	if near := Nearest(snake(name), names); near != "" {
		return ", did you mean " + near + "?"
	}
	for i := range names {
		if sub := fields.Get(i).Message(); sub != nil && !fields.Get(i).IsMap() && fieldByName(sub, name) != nil {
			return ", did you mean " + names[i] + "." + name + "?"
		}
	}
	return "; known are " + strings.Join(names, ", ")
}

// snake turns macAddress into mac_address.
func snake(s string) string {
	var b strings.Builder
	for i, r := range s {
		if 'A' <= r && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// join extends a path; names that would not be readable in it are quoted.
func join(path, name string) string {
	for i := 0; i < len(name); i++ {
		if !nameByte(name[i], false) {
			name = node{kind: '"', text: name}.show()
			break
		}
	}
	if name == "" {
		name = `""`
	}
	if path == "" {
		return name
	}
	return path + "." + name
}
