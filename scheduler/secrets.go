package scheduler

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// A value with secrets is handed to its descriptor as it is, and told to nobody else but
// as [Descriptor.Secrets] shows it. What the world does not tell again cannot be
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

// digest tells secrets of a value apart, for this process only; zero stands for secrets
// that are not known.
func (as *assessor) digest(k *kind, v any) uint64 {
	var h maphash.Hash
	h.SetSeed(as.seed)
	_, secrets := k.secrets(v)
	for _, s := range secrets {
		fmt.Fprintf(&h, "%d %s", len(s), s)
	}
	return max(h.Sum64(), 1)
}

// applied notes with which secrets the node is in the world; nil is not known.
func (e *engine) applied(n *graph.Node, k *kind, v any) {
	switch {
	case k == nil || k.secrets == nil:
	case v != nil:
		e.g.Extra(n).Secrets = e.digest(k, v)
	case n.X != nil:
		e.g.Extra(n).Secrets = 0
	}
}

// believeSecrets: what is as wanted, and was made nobody knows with which secrets, counts
// as made with those that are wanted, so that a change of them is noticed.
func (e *engine) believeSecrets(n *graph.Node) {
	if k := kindOf(n); k != nil && k.secrets != nil && (n.X == nil || n.X.Secrets == 0) {
		e.applied(n, k, n.Goal())
	}
}

// secretsDiffer reports whether a node that looks as wanted was made with other secrets.
// Where nobody knows, as after a restart, an update makes sure; nothing is made anew for
// that.
func (as *assessor) secretsDiffer(n *graph.Node, k *kind, goal any) bool {
	switch {
	case k.secrets == nil:
		return false
	case n.X == nil || n.X.Secrets == 0:
		return k.update != nil && len(k.secretsOf(goal)) > 0
	}
	return n.X.Secrets != as.digest(k, goal)
}

// verdict compares a node with what is wanted of it.
func (as *assessor) verdict(n *graph.Node, k *kind, actual, goal any) Verdict {
	v := k.compare(n.Key, actual, goal)
	if v.Change == Same && as.secretsDiffer(n, k, goal) {
		v = Verdict{Change: Replace, Reason: "a secret changed"}
		if k.update != nil {
			v.Change = InPlace
		}
	}
	return v
}

// wishesDiffer is differ for two values that are, or were, wanted, which have their secrets.
func wishesDiffer(k *kind, key Key, a, b any) bool {
	return differ(k, key, a, b) || k != nil && a != nil && !slices.Equal(k.secretsOf(a), k.secretsOf(b))
}
