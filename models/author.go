package models

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// AuthorPrefix is below which the store keeps who changed intent. A record is written in
// the transaction that changes it, so that it has the revision of the values: a value
// whose revision has no record was not written through the agent.
const AuthorPrefix = "author/"

// Author is who changed intent, and why.
type Author struct {
	// By is who asked: "root for amy (agentctl, process 1234)".
	By string `json:"by"`
	// Message is what he said about it, Files are what he read the values from.
	Message string    `json:"message,omitempty"`
	Files   []string  `json:"files,omitempty"`
	Time    time.Time `json:"time"`
}

// Write is the record for the transaction that id names.
func (a Author) Write(id string) Write {
	value, _ := json.Marshal(a) // texts and a time always encode
	return Write{Key: AuthorPrefix + id, Value: value}
}

// ReadAuthor reads a record; ok is false for what is none.
func ReadAuthor(value []byte) (a Author, ok bool) {
	err := json.Unmarshal(value, &a)
	return a, err == nil && a.By != ""
}

// maxAuthor bounds the text of an author in bytes: it is kept with each transaction.
const maxAuthor = 240

// String is the author in a line: `by root (agentctl, process 12) from /etc/site.yaml: "why"`.
func (a Author) String() string {
	s := "by " + a.By
	if len(a.Files) > 0 {
		s += " from " + strings.Join(a.Files, ", ")
	}
	if a.Message != "" {
		s += fmt.Sprintf(": %q", a.Message)
	}
	if len(s) > maxAuthor {
		s = strings.ToValidUTF8(s[:maxAuthor], "") + "…"
	}
	return s
}
