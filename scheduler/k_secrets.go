package scheduler

import (
	"errors"
	"slices"
	"strings"
)

// A value with secrets is handed to its descriptor as it is, and told to nobody else but
// as its kind shows it. What the world does not tell again cannot be
// compared with it: the node remembers a digest of the secrets that were applied last.

const hidden = "***"

// show is a value as it may be told.
func (k *kind) show(v any) any {
	if k == nil || k.secrets == nil || v == nil {
		return v
	}
	shown, _ := k.secrets(v)
	return shown
}

// secretsOf are the secrets of some values, the longest first.
func (k *kind) secretsOf(values ...any) (all []string) {
	if k == nil || k.secrets == nil {
		return nil
	}
	for _, v := range values {
		if v != nil {
			_, secrets := k.secrets(v)
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
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		fields := slices.Clone(invalid.Fields)
		for i := range fields {
			fields[i].Error = mask(fields[i].Error, secrets)
		}
		return &InvalidError{Fields: fields}
	}
	return &maskedError{err, mask(err.Error(), secrets)}
}

// mask hides the secrets of the operation in what it says.
func (o *op) mask() {
	if o.kind.secrets == nil {
		return
	}
	if o.reading == nil {
		maskAll([]*op{o})
		return
	}
	var values []any
	for _, kn := range o.scope.known {
		values = append(values, kn.value)
	}
	secrets := o.kind.secretsOf(values...)
	o.err = maskError(o.err, secrets)
	for k, err := range o.unread {
		o.unread[k] = maskError(err, secrets)
	}
}

// maskAll hides the secrets of a batch in what each of its operations says: an error may
// tell of another.
func maskAll(batch []*op) {
	k := batch[0].kind
	if k.secrets == nil {
		return
	}
	var values []any
	for _, o := range batch {
		values = append(values, o.from, o.to)
	}
	secrets := k.secretsOf(values...)
	for _, o := range batch {
		o.err = maskError(o.err, secrets)
	}
}

// wishesDiffer is differ for two values that are, or were, wanted, which have their secrets.
func wishesDiffer(k *kind, key Key, a, b any) bool {
	return differ(k, key, a, b) || k != nil && a != nil && !slices.Equal(k.secretsOf(a), k.secretsOf(b))
}
