package models

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// docOf is what models.proto says of a message or field.
func docOf(d protoreflect.Descriptor) string {
	return comments()[strings.TrimPrefix(string(d.FullName()), "plumb.v1.")]
}

// Explain documents a kind or a field: "interface", "interface.veth.peer".
func Explain(path string) (string, error) {
	kind, rest, _ := strings.Cut(path, ".")
	k, err := KindByName(kind)
	if err != nil {
		return "", err
	}
	md := k.New().ProtoReflect().Descriptor()
	if rest == "" {
		return explainMessage(kind+": "+docOf(md), keyLine(k), md), nil
	}
	at := kind
	for {
		name, deeper, more := strings.Cut(rest, ".")
		fd := fieldByName(md, name)
		if fd == nil {
			return "", invalid("", "%s: unknown field%s", join(at, name), hint(md, name))
		}
		at += "." + string(fd.Name())
		sub := fd.Message()
		if sub == nil || fd.IsMap() {
			if more {
				return "", invalid("", "%s is %s; it has no fields", at, typeWord(fd))
			}
			return explainField(at, fd), nil
		}
		if !more {
			return explainMessage(at+": "+typeWord(fd), wrap(fieldDoc(fd, sub), "  "), sub), nil
		}
		md, rest = sub, deeper
	}
}

func keyLine(k Kind) string {
	if k.Writable {
		return "  Key: " + k.Prefix + "<name>\n"
	}
	return "  Key: " + k.Prefix + "<name>. It comes and goes by itself and cannot be written.\n"
}

// fieldDoc says what the field is, and what its message is if that says more.
func fieldDoc(fd protoreflect.FieldDescriptor, sub protoreflect.MessageDescriptor) string {
	field, message := docOf(fd), docOf(sub)
	if strings.HasPrefix(message, strings.TrimSuffix(field, ".")) {
		return message
	}
	return field + " " + message
}

func explainField(at string, fd protoreflect.FieldDescriptor) string {
	return at + ": " + typeWord(fd) + "\n" + fieldText(fd, "  ")
}

// fieldText is the comment of a field, and its default on a line of its own.
func fieldText(fd protoreflect.FieldDescriptor, indent string) string {
	text := wrap(docOf(fd), indent)
	if d := defaultOf(fd.FullName()); d != "" {
		text += wrap("default: "+d, indent)
	}
	return text
}

func explainMessage(title, text string, md protoreflect.MessageDescriptor) string {
	var b strings.Builder
	b.WriteString(title + "\n" + text)
	if md.Fields().Len() == 0 {
		b.WriteString("\nThere are no fields.\n")
		return b.String()
	}
	last := ""
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		head := "Fields"
		if one := fd.ContainingOneof(); one != nil && !one.IsSynthetic() {
			head = "Exactly one " + oneofWord(one)
		}
		if head != last {
			b.WriteString("\n" + head + "\n")
			last = head
		}
		fmt.Fprintf(&b, "  %s: %s\n%s", fd.Name(), typeWord(fd), fieldText(fd, "      "))
	}
	return b.String()
}

// typeWord says what is written into a field.
func typeWord(fd protoreflect.FieldDescriptor) string {
	word := singleWord(fd)
	switch {
	case fd.IsMap() && fd.MapValue().Kind() == protoreflect.BoolKind:
		return "object of " + singleWord(fd.MapValue())
	case fd.IsMap():
		return "object of " + singleWord(fd.MapValue()) + "s"
	case fd.IsList():
		return "list of " + word + "s"
	}
	return word + limitWord(fd)
}

func singleWord(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return "object"
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.StringKind:
		return "string"
	}
	return "number"
}

func limitWord(fd protoreflect.FieldDescriptor) string {
	l, ok := limitOf(fd.FullName())
	switch {
	case !ok:
		return ""
	case l.words != nil:
		return ", one of " + strings.Join(l.words, ", ")
	case l.max > 0 && l.zero:
		return fmt.Sprintf(", 0 or %d to %d", l.min, l.max)
	case l.max > 0:
		return fmt.Sprintf(", %d to %d", l.min, l.max)
	}
	return ""
}

// lineWidth is where wrap breaks lines.
const lineWidth = 78

func wrap(text, indent string) string {
	var b strings.Builder
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > lineWidth && line != indent {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	if line != indent {
		b.WriteString(line + "\n")
	}
	return b.String()
}
