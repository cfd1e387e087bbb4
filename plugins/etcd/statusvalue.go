package etcd

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/plumb-net/plumb/scheduler"
)

// statusValue is the value at /plumb/<label>/status/<kind>/<name>.
type statusValue struct {
	Key     string          `json:"key"`
	Kind    string          `json:"kind"`
	Name    string          `json:"name"`
	State   string          `json:"state"`
	Reason  string          `json:"reason,omitempty"`
	Missing []statusMissing `json:"missing,omitempty"`
	// MissingMore and the like count what is left out.
	MissingMore int             `json:"missing_more,omitempty"`
	Fields      []statusField   `json:"fields,omitempty"`
	FieldsMore  int             `json:"fields_more,omitempty"`
	Origin      string          `json:"origin,omitempty"`
	Derived     []statusDerived `json:"derived,omitempty"`
	DerivedMore int             `json:"derived_more,omitempty"`
	Since       time.Time       `json:"since,omitzero"`
	Tries       int             `json:"attempts,omitempty"`
	NextTry     time.Time       `json:"next_try,omitzero"`
	Agent       string          `json:"incarnation"`
}

type statusMissing struct {
	Need string `json:"need"`
	Why  string `json:"why,omitempty"`
}

type statusField struct {
	Field string `json:"field"`
	Error string `json:"error"`
}

type statusDerived struct {
	Key    string `json:"key"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// What a status tells is bounded, so that it fits into one request of any store
// whatever was wanted: the texts, and each list by its number and its bytes.
const (
	maxStatusText  = 1 << 10
	maxStatusList  = 1000
	maxStatusBatch = 64 << 10 // bytes of the texts of one list
)

// encodeStatus makes the value.
func encodeStatus(s scheduler.Status, incarnation string) []byte {
	kind, name, _ := strings.Cut(string(s.Key), "/")
	v := statusValue{
		Key: string(s.Key), Kind: kind, Name: name,
		State: s.State.String(), Reason: bounded(s.Reason), Origin: bounded(s.Origin),
		Since: s.Since.UTC(), Tries: s.Attempts, NextTry: s.NextTry.UTC(), Agent: incarnation,
	}
	v.Missing, v.MissingMore = some(s.Missing, func(m scheduler.Missing) (statusMissing, int) {
		out := statusMissing{bounded(m.Need), bounded(m.Why)}
		return out, len(out.Need) + len(out.Why)
	})
	v.Fields, v.FieldsMore = some(s.Fields, func(f scheduler.FieldError) (statusField, int) {
		out := statusField{bounded(f.Field), bounded(f.Error)}
		return out, len(out.Field) + len(out.Error)
	})
	v.Derived, v.DerivedMore = some(s.Derived, func(d scheduler.Status) (statusDerived, int) {
		out := statusDerived{bounded(string(d.Key)), d.State.String(), bounded(d.Reason)}
		return out, len(out.Key) + len(out.Reason)
	})
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and times cannot fail
	}
	return data
}

// some tells the first of a list and counts the rest.
func some[In, Out any](all []In, tell func(In) (Out, int)) (told []Out, more int) {
	bytes := 0
	for i, in := range all {
		out, n := tell(in)
		if bytes += n; i == maxStatusList || i > 0 && bytes > maxStatusBatch {
			return told, len(all) - i
		}
		told = append(told, out)
	}
	return told, 0
}

// bounded cuts a long text between two characters and says how much it lacks.
func bounded(text string) string {
	if len(text) <= maxStatusText {
		return text
	}
	n := maxStatusText
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return fmt.Sprintf("%s… (%d bytes more)", text[:n], len(text)-n)
}

// told reports whether a key's status belongs into the store: intent names it,
// or it is an object of ours that is not gone yet. The containers and links of
// the host are not told; there may be many and others know them better.
func told(s scheduler.Status) bool {
	switch {
	case s.Base != "":
		return false // told with its base
	case s.State == scheduler.Absent, s.State == scheduler.Removed:
		return false
	case s.Origin != "":
		return true
	}
	switch s.State {
	case scheduler.Leftover, scheduler.Failed, scheduler.Retrying, scheduler.Paused, scheduler.Drifted:
		return true
	}
	return false
}

// digest stands for a value that was written: to know that it need not be
// written again it is not kept.
type digest uint64

type digester struct{ seed maphash.Seed }

func newDigester() digester { return digester{maphash.MakeSeed()} }

func (d digester) of(data []byte) digest { return digest(maphash.Bytes(d.seed, data)) }
