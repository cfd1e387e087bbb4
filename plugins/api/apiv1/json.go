package apiv1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// JSON writes a message in its one form: names as in agent.proto, in their
// order there, no white space, what is empty left out, numbers as numbers also
// when they have 64 bits. The protobuf encoder would quote those and vary its
// white space.
func JSON(m proto.Message) []byte {
	b, err := appendMessage(nil, m.ProtoReflect())
	if err != nil {
		// Only a string that is not UTF-8 or a number that is none does this.
		b, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	return b
}

// alwaysListed are lists that are written also when they are empty, because
// readers count them.
func alwaysListed(field protoreflect.FullName) bool {
	switch field {
	case "plumb.api.v1.PlanResponse.steps", "plumb.api.v1.PlanResponse.pending":
		return true
	}
	return false
}

func appendMessage(b []byte, m protoreflect.Message) ([]byte, error) {
	if m.Descriptor().ParentFile().Package() == "google.protobuf" {
		return appendKnown(b, m)
	}
	b = append(b, '{')
	fields := m.Descriptor().Fields()
	for i, n := 0, 0; i < fields.Len(); i++ {
		fd := fields.Get(i)
		if !m.Has(fd) && !alwaysListed(fd.FullName()) {
			continue
		}
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(b, string(fd.Name()))
		b = append(b, ':')
		var err error
		if b, err = appendField(b, fd, m.Get(fd)); err != nil {
			return nil, fmt.Errorf("%s: %w", fd.FullName(), err)
		}
	}
	return append(b, '}'), nil
}

// appendKnown leaves times, durations and free values to the protobuf encoder.
func appendKnown(b []byte, m protoreflect.Message) ([]byte, error) {
	loose, err := protojson.Marshal(m.Interface())
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(b)
	err = json.Compact(out, loose)
	return out.Bytes(), err
}

func appendField(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) (_ []byte, err error) {
	switch {
	case fd.IsMap():
		return appendMap(b, fd, v.Map())
	case !fd.IsList():
		return appendSingle(b, fd, v)
	}
	b = append(b, '[')
	for i := range v.List().Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendSingle(b, fd, v.List().Get(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// appendMap writes a map with strings as keys, sorted.
func appendMap(b []byte, fd protoreflect.FieldDescriptor, m protoreflect.Map) (_ []byte, err error) {
	var keys []string
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k.String())
		return true
	})
	slices.Sort(keys)
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, k), ':')
		if b, err = appendSingle(b, fd.MapValue(), m.Get(protoreflect.ValueOfString(k).MapKey())); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendSingle(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch x := v.Interface().(type) {
	case protoreflect.Message:
		return appendMessage(b, x)
	case string:
		return appendString(b, x), nil
	case bool:
		return strconv.AppendBool(b, x), nil
	case int32, int64, uint32, uint64:
		return fmt.Append(b, x), nil
	case []byte:
		quoted, err := json.Marshal(x)
		return append(b, quoted...), err
	}
	return nil, fmt.Errorf("no JSON for the type %v", fd.Kind())
}

// appendString leaves < > & readable, unlike json.Marshal.
func appendString(b []byte, s string) []byte {
	out := bytes.NewBuffer(b)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // strings always encode
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// Codec makes Connect speak the JSON of this package. Unlike Connect's own it
// refuses unknown fields: a dry_run misspelt must not become a real run.
type Codec struct{}

// Name tells Connect what the codec is for: application/json.
func (Codec) Name() string { return "json" }

// Marshal implements connect.Codec.
func (Codec) Marshal(m any) ([]byte, error) {
	msg, ok := m.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", m)
	}
	return appendMessage(nil, msg.ProtoReflect())
}

// MarshalStable implements Connect's wish for one form, which Marshal has anyway.
func (c Codec) MarshalStable(m any) ([]byte, error) { return c.Marshal(m) }

// IsBinary tells Connect that the JSON may stand in a URL.
func (Codec) IsBinary() bool { return false }

// Unmarshal implements connect.Codec. It takes both spellings of names.
func (Codec) Unmarshal(data []byte, m any) error {
	msg, ok := m.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", m)
	}
	if len(data) == 0 {
		return errors.New("the request is empty; send at least {}")
	}
	return protojson.Unmarshal(data, msg)
}
