package etcd

import (
	"encoding/json"
	"hash/maphash"
	"strings"
	"time"

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
	Fields  []statusField   `json:"fields,omitempty"`
	Origin  string          `json:"origin,omitempty"`
	Derived []statusDerived `json:"derived,omitempty"`
	More    int             `json:"derived_more,omitempty"`
	Since   time.Time       `json:"since,omitzero"`
	Tries   int             `json:"attempts,omitempty"`
	NextTry time.Time       `json:"next_try,omitzero"`
	Agent   string          `json:"incarnation"`
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

// maxDerived bounds the derived keys told in one status, which must fit into
// one request.
const maxDerived = 1000

// encodeStatus makes the value.
func encodeStatus(s scheduler.Status, incarnation string) []byte {
	kind, name, _ := strings.Cut(string(s.Key), "/")
	v := statusValue{
		Key: string(s.Key), Kind: kind, Name: name,
		State: s.State.String(), Reason: s.Reason, Origin: s.Origin,
		Since: s.Since.UTC(), Tries: s.Attempts, NextTry: s.NextTry.UTC(), Agent: incarnation,
	}
	for _, m := range s.Missing {
		v.Missing = append(v.Missing, statusMissing{m.Need, m.Why})
	}
	for _, f := range s.Fields {
		v.Fields = append(v.Fields, statusField{f.Field, f.Error})
	}
	for i, d := range s.Derived {
		if i == maxDerived {
			v.More = len(s.Derived) - i
			break
		}
		v.Derived = append(v.Derived, statusDerived{string(d.Key), d.State.String(), d.Reason})
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and times cannot fail
	}
	return data
}

// told tells whether a key's status belongs into the store: intent names it,
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
