package intent

import (
	"errors"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Value is what a source wants of one key: a value, or the error that makes the key invalid.
type Value struct {
	value any
	err   error
	// text is equal when nothing changed.
	text string
}

// Wanted returns the value msg, or an invalid value if err is not nil.
func Wanted(msg proto.Message, err error) Value {
	if err != nil {
		err = Invalid(err)
		return Value{err: err, text: "invalid: " + err.Error()}
	}
	return Value{value: msg, text: string(models.Encode(msg))}
}

// Err returns the error that makes the key invalid, or nil.
func (v Value) Err() error { return v.err }

// Values are all that a source, or a part of it, wants.
type Values map[scheduler.Key]Value

// Changes returns what has to be submitted to get from one set of values to another, in the order of the keys.
func Changes(from, to Values) []scheduler.Change {
	var changes []scheduler.Change
	for k, v := range to {
		was, ok := from[k]
		switch {
		case ok && was.text == v.text:
		case v.err != nil:
			changes = append(changes, scheduler.SetInvalid(k, v.err))
		default:
			changes = append(changes, scheduler.Set(k, v.value))
		}
	}
	for k := range from {
		if _, ok := to[k]; !ok {
			changes = append(changes, scheduler.Withdraw(k))
		}
	}
	slices.SortFunc(changes, func(a, b scheduler.Change) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return changes
}

// Invalid converts an error of a decoder to the type that the scheduler reports by field.
func Invalid(err error) error {
	var bad *models.InvalidError
	var done *scheduler.InvalidError
	switch {
	case errors.As(err, &done):
		return err
	case !errors.As(err, &bad):
		return scheduler.Invalid("", "%v", err)
	}
	out := &scheduler.InvalidError{Fields: make([]scheduler.FieldError, len(bad.Fields))}
	for i, f := range bad.Fields {
		out.Fields[i] = scheduler.FieldError{Field: f.Field, Error: f.Error}
	}
	return out
}
