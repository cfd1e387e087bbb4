package models

import (
	"fmt"
	"strings"
)

// FieldError is what is wrong with one field of a value. Field is a path
// ("veth.peer", "addresses[0]"), or empty for the key or the value as a whole.
type FieldError struct {
	Field string
	Error string
}

// InvalidError refuses a value: it can never be applied as it stands.
type InvalidError struct {
	Fields []FieldError
}

func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = f.Error
		if f.Field != "" {
			parts[i] = f.Field + ": " + f.Error
		}
	}
	return strings.Join(parts, "; ")
}

// invalid makes an InvalidError about one field.
func invalid(field, format string, args ...any) *InvalidError {
	return &InvalidError{Fields: []FieldError{{Field: field, Error: fmt.Sprintf(format, args...)}}}
}

// maxFindings bounds what one value is told at once.
const maxFindings = 20

// findings collects what is wrong with a value, in the order of discovery.
type findings struct {
	fields []FieldError
	more   int
}

func (f *findings) add(field, format string, args ...any) {
	if len(f.fields) == maxFindings {
		f.more++
		return
	}
	f.fields = append(f.fields, FieldError{Field: field, Error: fmt.Sprintf(format, args...)})
}

// err is nil when nothing was found.
func (f *findings) err() error {
	if len(f.fields) == 0 {
		return nil
	}
	if f.more > 0 {
		f.fields = append(f.fields, FieldError{Error: fmt.Sprintf("and %d more errors", f.more)})
	}
	return &InvalidError{Fields: f.fields}
}
