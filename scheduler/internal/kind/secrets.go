package kind

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/kv"
)

// A value with secrets is handed to its descriptor as it is, and told to nobody else but
// as its kind shows it. What a read does not return cannot be
// compared: the node remembers a digest of the secrets that were applied last.

const hidden = "***"

// Show is a value as it may be told.
func (k *Kind) Show(v any) any {
	if k == nil || k.Secrets == nil || v == nil {
		return v
	}
	shown, _ := k.Secrets(v)
	return shown
}

// SecretsOf are the secrets of some values, the longest first.
func (k *Kind) SecretsOf(values ...any) (all []string) {
	if k == nil || k.Secrets == nil {
		return nil
	}
	for _, v := range values {
		if v != nil {
			_, secrets := k.Secrets(v)
			all = append(all, secrets...)
		}
	}
	all = slices.DeleteFunc(all, func(s string) bool { return s == "" })
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

func mask(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, hidden)
	}
	return text
}

// maskedError says what an error says, without secrets.
type maskedError struct {
	error
	text string
}

func (m *maskedError) Error() string { return m.text }

func (m *maskedError) Unwrap() error { return m.error }

func maskError(err error, secrets []string) error {
	if err == nil || len(secrets) == 0 {
		return err
	}
	var invalid *kv.InvalidError
	if errors.As(err, &invalid) {
		fields := slices.Clone(invalid.Fields)
		for i := range fields {
			fields[i].Error = mask(fields[i].Error, secrets)
		}
		return &kv.InvalidError{Fields: fields}
	}
	return &maskedError{err, mask(err.Error(), secrets)}
}

// mask hides the secrets of the operation in what it says.
func (o *Op) mask() {
	if o.Kind.Secrets == nil {
		return
	}
	if o.Reading == nil {
		maskAll([]*Op{o})
		return
	}
	var values []any
	for _, kn := range o.Scope.Known {
		values = append(values, kn.Value)
	}
	secrets := o.Kind.SecretsOf(values...)
	o.Err = maskError(o.Err, secrets)
	for k, err := range o.Unread {
		o.Unread[k] = maskError(err, secrets)
	}
}

// maskAll hides the secrets of a batch in what each of its operations says: an error may
// tell of another.
func maskAll(batch []*Op) {
	k := batch[0].Kind
	if k.Secrets == nil {
		return
	}
	var values []any
	for _, o := range batch {
		values = append(values, o.From, o.To)
	}
	secrets := k.SecretsOf(values...)
	for _, o := range batch {
		o.Err = maskError(o.Err, secrets)
	}
}

// DesiredDiffer reports whether two values that are, or were, wanted ask for different
// things. What the kind compares with what is there is not all of a value: the rest is derived,
// or cannot be read.
func DesiredDiffer(k *Kind, key kv.Key, a, b any) bool {
	if Differ(k, key, a, b) {
		return true
	}
	if k == nil || a == nil || k.Identical(a, b) {
		return false
	}
	if k.Encode == nil {
		return !reflect.DeepEqual(a, b)
	}
	// Not by its fields: a message has some of its own beside those that it says, and sets
	// them when somebody else encodes it.
	was, err := EncodeValue(k, a)
	if err != nil {
		return true
	}
	is, err := EncodeValue(k, b)
	return err != nil || !bytes.Equal(was, is)
}
