package models

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// TestDefaults: each field with a function for its default is in the table, and a default of one
// word, or with a number, is what the function returns of an empty message.
func TestDefaults(t *testing.T) {
	checked := map[string]bool{"Interface.duplicate_detection": true} // its addresses have the function
	for i := range File_models_models_proto.Messages().Len() {
		md := File_models_models_proto.Messages().Get(i)
		typ, err := protoregistry.GlobalTypes.FindMessageByName(md.FullName())
		if err != nil {
			t.Fatal(err)
		}
		empty := reflect.ValueOf(typ.New().Interface())
		for j := range md.Fields().Len() {
			fd := md.Fields().Get(j)
			name := strings.TrimPrefix(string(fd.FullName()), "plumb.v1.")
			f := effective(empty, fd)
			if !f.IsValid() || required(fd) {
				continue
			}
			checked[name] = true
			text := defaultOf(fd.FullName())
			switch f.Type().NumIn() {
			case 0:
				if got := f.Call(nil)[0]; !agrees(text, got, fd) {
					t.Errorf("%s: the table has %q, the code %v", name, text, got)
				}
			default:
				if text == "" {
					t.Errorf("%s has a function, and no default in the table", name)
				}
			}
		}
	}
	for name, text := range defaults {
		fd, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("plumb.v1." + name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, is := fd.(protoreflect.FieldDescriptor); !is || !strings.Contains(text, " ") && !checked[name] {
			t.Errorf("%s: no function has its default, %s", name, text)
		}
	}
}

// effective is the method of a message that applies the default of a field; zero if it has none.
func effective(m reflect.Value, fd protoreflect.FieldDescriptor) reflect.Value {
	var camel strings.Builder
	for word := range strings.SplitSeq(string(fd.Name()), "_") {
		camel.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	for _, prefix := range []string{"Effective", "Is"} {
		if f := m.MethodByName(prefix + camel.String()); f.IsValid() {
			return f
		}
	}
	return reflect.Value{}
}

// agrees reports whether a text of the table names what the code returns. One of several words
// without numbers is a rule, which depends on other fields.
func agrees(text string, got reflect.Value, fd protoreflect.FieldDescriptor) bool {
	is := fmt.Sprint(got)
	if fd.Kind() == protoreflect.StringKind && got.CanUint() {
		is = fmt.Sprintf("%#o", got.Uint())
	}
	words := regexp.MustCompile(`[^\s,]+`).FindAllString(text, -1)
	return slices.Contains(words, is) || len(words) > 1 && !regexp.MustCompile(`\d{2}`).MatchString(text)
}
