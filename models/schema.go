package models

import (
	"encoding/json"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// schema is the part of JSON Schema (2020-12) that our values need.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        string             `json:"type,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	// Closed objects have no other properties; for maps it is the schema of the values.
	Additional any       `json:"additionalProperties,omitempty"`
	Required   []string  `json:"required,omitempty"`
	OneOf      []*schema `json:"oneOf,omitempty"`
	Items      *schema   `json:"items,omitempty"`
	Enum       []any     `json:"enum,omitempty"`
	Const      any       `json:"const,omitempty"`
	Minimum    *int64    `json:"minimum,omitempty"`
	Maximum    *uint64   `json:"maximum,omitempty"`
}

// Schema is the JSON Schema of the values of a kind, for editors and checks
// elsewhere. It says less than Validate: what excludes what is only there.
func Schema(kind string) ([]byte, error) {
	k, err := KindByName(kind)
	if err != nil {
		return nil, err
	}
	s := messageSchema(k.New().ProtoReflect().Descriptor())
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = kind
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

func messageSchema(md protoreflect.MessageDescriptor) *schema {
	s := &schema{Type: "object", Description: docOf(md), Additional: false, Properties: map[string]*schema{}}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		s.Properties[string(fd.Name())] = fieldSchema(fd)
		if required(fd) {
			s.Required = append(s.Required, string(fd.Name()))
		}
	}
	for i := range md.Oneofs().Len() {
		one := md.Oneofs().Get(i)
		if one.IsSynthetic() {
			continue
		}
		for j := range one.Fields().Len() {
			s.OneOf = append(s.OneOf, &schema{Required: []string{string(one.Fields().Get(j).Name())}})
		}
	}
	return s
}

func fieldSchema(fd protoreflect.FieldDescriptor) *schema {
	var s *schema
	switch {
	case fd.IsMap():
		s = &schema{Type: "object", Additional: singleSchema(fd.MapValue())}
	case fd.IsList():
		s = &schema{Type: "array", Items: singleSchema(fd)}
	default:
		s = singleSchema(fd)
	}
	s.Description = docOf(fd)
	return s
}

func singleSchema(fd protoreflect.FieldDescriptor) *schema {
	l, limited := limitOf(fd.FullName())
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return messageSchema(fd.Message())
	case protoreflect.BoolKind:
		return &schema{Type: "boolean"}
	case protoreflect.StringKind:
		s := &schema{Type: "string"}
		for _, w := range l.words {
			s.Enum = append(s.Enum, w)
		}
		return s
	case protoreflect.Uint64Kind:
		return &schema{Type: "string"} // the protobuf mapping writes 64 bits as a string
	}
	s := &schema{Type: "integer"}
	if fd.Kind() == protoreflect.Uint32Kind {
		low, high := int64(0), uint64(1<<32-1)
		if limited {
			low, high = int64(l.min), l.max
		}
		s.Minimum, s.Maximum = &low, &high
	}
	if limited && l.zero {
		zero := &schema{Const: 0}
		s = &schema{OneOf: []*schema{zero, s}}
	}
	return s
}

// required reports whether a message is invalid without the field.
func required(fd protoreflect.FieldDescriptor) bool {
	if fd.ContainingOneof() != nil {
		return false // the oneof says it
	}
	l, ok := limitOf(fd.FullName())
	return ok && (l.required || l.min > 0 && !l.zero)
}
