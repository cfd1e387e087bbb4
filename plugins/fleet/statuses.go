package fleet

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// Status is how a key of an agent stood when it last told.
type Status struct {
	Key    string    `json:"key"`
	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Origin string    `json:"origin,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// Statuses are those that an agent keeps in etcd: of the keys in its intent, and of what is
// left of others. A target is a key, a kind, or a prefix that ends in a slash; none is all.
func (f *Fleet) Statuses(ctx context.Context, label string, targets []string) (out []Status, err error) {
	if len(targets) == 0 {
		targets = []string{""}
	}
	seen := map[string]bool{}
	for _, t := range targets {
		prefix := below(label, "status/"+t)
		if t != "" && !strings.Contains(t, "/") {
			prefix += "/" // a kind
		}
		whole := t != "" && !strings.HasSuffix(prefix, "/")
		err := f.list(ctx, prefix, func(rest string, value []byte) error {
			var s Status
			if whole && rest != "" || json.Unmarshal(value, &s) != nil || seen[s.Key] {
				return nil // of another key, or written by somebody else
			}
			seen[s.Key] = true
			out = append(out, s)
			return nil
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
