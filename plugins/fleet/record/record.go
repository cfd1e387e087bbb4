// Package record is what the agents of one etcd and those who look after them keep there
// for each other. Below /plumb/<label>/ are
//
//	agent            who serves the label; goes with the agent      Presence
//	converged        up to where the intent was carried out         Converged
//	summary          how the agent is; stays when it has gone       Summary
//	duplicate        who else wanted the label, for a minute        Duplicate
//	fleet/rollout    what the agent is to try, keep or take back    Request
//	fleet/ask/<id>   a question that only the agent can answer      Question
//	outcome          what came of the request                       Outcome
//	answer/<id>      the answer                                     Answer
//
// Requests, questions and answers have the lease of who asks: they go with him.
package record

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Root is where all labels are.
const Root = "/plumb/"

// The keys below /plumb/<label>/.
const (
	PresenceKey  = "agent"
	ConvergedKey = "converged"
	SummaryKey   = "summary"
	DuplicateKey = "duplicate"
	// ForAgent is the prefix of what is asked of the agent, which it watches.
	ForAgent     = "fleet/"
	RequestKey   = ForAgent + "rollout"
	AskPrefix    = ForAgent + "ask/"
	OutcomeKey   = "outcome"
	AnswerPrefix = "answer/"
)

// Presence is who serves a label.
type Presence struct {
	UUID        string            `json:"uuid"` // of the state directory
	Incarnation string            `json:"incarnation"`
	Host        string            `json:"host"`
	PID         int               `json:"pid"`
	Version     string            `json:"version,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	StartedAt   time.Time         `json:"started_at"`
}

// Converged is up to which revision of the store the intent was carried out as far as it
// can be: nothing that follows from it by itself is still to come.
type Converged struct {
	Revision    int64     `json:"revision"`
	Time        time.Time `json:"time"`
	Incarnation string    `json:"incarnation"`
}

// Duplicate is an agent that wanted a label which another one serves.
type Duplicate struct {
	Presence
	Time time.Time `json:"time"`
}

// Summary is how an agent was when it last said so.
type Summary struct {
	Presence
	// State is ready or not ready, Reasons are why not.
	State   string   `json:"state"`
	Reasons []string `json:"reasons,omitempty"`
	// Keys are how many keys are in which state.
	Keys map[string]int `json:"keys,omitempty"`
	// Frozen is why nothing is done to the network.
	Frozen string `json:"frozen,omitempty"`
	// Held is how many deletions are held back, Confirm the change that waits to be confirmed.
	Held    int    `json:"held,omitempty"`
	Confirm string `json:"confirm,omitempty"`
	// Stopped: the agent has ended in good order.
	Stopped bool      `json:"stopped,omitempty"`
	Time    time.Time `json:"time"`
}

// The phases of a request.
const (
	Try     = "try"     // write the values, and take them back unless they are to be kept
	Keep    = "keep"    // the values stay
	Abort   = "abort"   // take them back now
	Restore = "restore" // bring back what was before, though it was kept
)

// The phases of an outcome.
const (
	Trying    = "trying"    // the values are written; it is not known yet whether they work
	Healthy   = "healthy"   // all is as it should be; it goes back unless it is to be kept
	Kept      = "kept"      // the values stay
	Reverted  = "reverted"  // taken back
	Refused   = "refused"   // nothing was done
	Restored  = "restored"  // brought back
	Restoring = "restoring" // being brought back
)

// Request is what an agent is to do with a rollout.
type Request struct {
	Rollout string `json:"rollout"`
	// Attempt tells one try of a host from the next.
	Attempt int    `json:"attempt"`
	Phase   string `json:"phase"`
	By      string `json:"by"`
	Message string `json:"message,omitempty"`
	// Seconds is how long the agent waits to be told that the values stay.
	Seconds int `json:"seconds,omitempty"`
	// PendingOK: a key that only waits for something else is healthy too.
	PendingOK bool     `json:"pending_ok,omitempty"`
	Probes    []string `json:"probes,omitempty"`
	Items     []Item   `json:"items,omitempty"`
	// Set names what the items make up together; with Prune what it wrote before and does
	// not hold any more is deleted.
	Set   string `json:"set,omitempty"`
	Prune bool   `json:"prune,omitempty"`
	// Changes are what the rollout did; of Restore.
	Changes []Change `json:"changes,omitempty"`
}

// Item is a value of intent.
type Item struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
	// Where it was read, for people: "site.yaml:3".
	Where string `json:"where,omitempty"`
}

// Change is a key of the store before and after; null stands for no value.
type Change struct {
	Key    string `json:"key"`
	Before []byte `json:"before"`
	After  []byte `json:"after"`
}

// Outcome is what came of a request.
type Outcome struct {
	Rollout string   `json:"rollout"`
	Attempt int      `json:"attempt"`
	Phase   string   `json:"phase"`
	Reason  string   `json:"reason,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	// Confirm is the name of the agent's change that waits to be confirmed.
	Confirm string    `json:"confirm,omitempty"`
	Changes []Change  `json:"changes,omitempty"`
	Time    time.Time `json:"time"`
}

// Question is a call of the agent's API that only reads.
type Question struct {
	// Lease is that of who asks; the answer gets it too.
	Lease int64  `json:"lease"`
	By    string `json:"by"`
	// Call is why, diff or history.
	Call string `json:"call"`
	// Request is the call's request, as the API takes it.
	Request json.RawMessage `json:"request"`
}

// Answer is the call's response, or why there is none.
type Answer struct {
	Response json.RawMessage `json:"response,omitempty"`
	Error    string          `json:"error,omitempty"`
}

const (
	// MaxBytes bounds the values that a host gets in one rollout. With what was before they
	// have to fit into one request of etcd, which is 1.5 MiB.
	MaxBytes = 256 << 10
	// MaxAnswer bounds an answer.
	MaxAnswer = 512 << 10
	// maxLabels bounds the labels of an agent.
	maxLabels = 32
)

// labelPart is a name or a value.
var labelPart = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._/-]{0,61}[a-zA-Z0-9])?$`)

// ParseLabels reads labels as they are set, each name=value.
func ParseLabels(list []string) (map[string]string, error) {
	out := make(map[string]string, len(list))
	for _, l := range list {
		name, value, found := strings.Cut(l, "=")
		switch _, twice := out[name]; {
		case !found || !CheckLabel(name) || value != "" && !CheckLabel(value):
			return nil, fmt.Errorf("labels %q: want name=value of letters, digits and . _ / - within, up to 63 each", l)
		case twice:
			return nil, fmt.Errorf("labels %q: %s is given twice", l, name)
		}
		out[name] = value
	}
	if len(out) > maxLabels {
		return nil, fmt.Errorf("there are %d labels; an agent has at most %d", len(out), maxLabels)
	}
	return out, nil
}

// CheckLabel reports whether a text can be the name or the value of a label.
func CheckLabel(text string) bool { return labelPart.MatchString(text) }

// FormatLabels is the labels in a line, sorted: "rack=a3,role=web".
func FormatLabels(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, ",")
}
