package models

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// checkShape compares a JSON object with the message that it should become:
// unknown and doubled fields, wrong types, several of what excludes itself.
// What passes here, the protobuf decoder accepts.
func checkShape(n node, md protoreflect.MessageDescriptor, path string, f *findings) {
	seen := make(map[string]string, len(n.members))
	for _, m := range n.members {
		fd := fieldByName(md, m.name)
		at := join(path, m.name)
		if fd == nil {
			f.add(at, "unknown field%s", hint(md, m.name))
			continue
		}
		name := string(fd.Name())
		if first, double := seen[name]; double {
			if first == m.name {
				f.add(at, "written twice; keep one")
			} else {
				f.add(at, "written twice, also as %s; keep one", first)
			}
			continue
		}
		seen[name] = m.name
		if m.value.kind == 'n' {
			continue // null means unset
		}
		if one := fd.ContainingOneof(); one != nil && !one.IsSynthetic() {
			slot := "|" + string(one.Name())
			if other, double := seen[slot]; double {
				f.add(path, "%s and %s: only one %s", other, name, oneofWord(one))
				continue
			}
			seen[slot] = name
		}
		checkField(m.value, fd, at, f)
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

func checkField(n node, fd protoreflect.FieldDescriptor, path string, f *findings) {
	switch {
	case fd.IsMap():
		checkMap(n, fd, path, f)
	case fd.IsList():
		if n.kind != '[' {
			f.add(path, "must be a list, not %s%s", n.show(), listHint(n))
			return
		}
		for i, item := range n.items {
			checkSingle(item, fd, fmt.Sprintf("%s[%d]", path, i), f)
		}
	default:
		checkSingle(n, fd, path, f)
	}
}

func listHint(n node) string {
	if n.kind == '"' {
		return "; write [" + n.show() + "]"
	}
	return ""
}

func checkMap(n node, fd protoreflect.FieldDescriptor, path string, f *findings) {
	if n.kind != '{' {
		f.add(path, "must be an object, not %s", n.show())
		return
	}
	seen := map[string]bool{}
	for _, m := range n.members {
		at := join(path, m.name)
		if seen[m.name] {
			f.add(at, "written twice; keep one")
			continue
		}
		seen[m.name] = true
		checkSingle(m.value, fd.MapValue(), at, f)
	}
}

func checkSingle(n node, fd protoreflect.FieldDescriptor, path string, f *findings) {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		if n.kind != '{' {
			f.add(path, "must be an object, not %s", n.show())
			return
		}
		checkShape(n, fd.Message(), path, f)
	case protoreflect.StringKind:
		if n.kind != '"' {
			f.add(path, "must be a string, not %s%s", n.show(), quoteHint(n))
		}
	case protoreflect.BoolKind:
		if n.kind != 't' && n.kind != 'f' {
			f.add(path, "must be true or false, not %s", n.show())
		}
	case protoreflect.Int32Kind:
		checkNumber(n, math.MinInt32, math.MaxInt32, path, f)
	case protoreflect.Uint32Kind:
		checkNumber(n, 0, math.MaxUint32, path, f)
	case protoreflect.Uint64Kind:
		checkNumber(n, 0, math.MaxUint64, path, f)
	default:
		f.add(path, "cannot be written") // a type that no message of ours has
	}
}

func quoteHint(n node) string {
	switch n.kind {
	case '0', 't', 'f':
		return "; put it in quotes"
	}
	return ""
}

// checkNumber accepts what the protobuf JSON mapping accepts: a whole number,
// also in quotes, also as 1.5e3.
func checkNumber(n node, low int64, high uint64, path string, f *findings) {
	if n.kind == '0' || n.kind == '"' && plainNumber(n.text) {
		if wholeBetween(n.text, low, high) {
			return
		}
	}
	f.add(path, "must be a whole number from %d to %d, not %s", low, high, n.show())
}

func plainNumber(s string) bool {
	p := &parser{data: s}
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	_, err := p.number()
	return err == nil && p.at == len(s)
}

func wholeBetween(s string, low int64, high uint64) bool {
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return u <= high
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i >= low && (i < 0 || uint64(i) <= high)
	}
	if !strings.ContainsAny(s, ".eE") {
		return false
	}
	// Beyond 2^53 a float no longer reports whether it is whole.
	v, err := strconv.ParseFloat(s, 64)
	return err == nil && v == math.Trunc(v) && math.Abs(v) <= 1<<53 &&
		v >= float64(low) && v <= float64(high)
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
