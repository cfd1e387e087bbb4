package events

import (
	"encoding/json"
	"time"

	"github.com/plumb-net/plumb/plugins/container"
)

// record is an event as the file has it, or what else there is to say.
type record struct {
	Seq          uint64            `json:"seq,omitempty"`
	Type         Type              `json:"type,omitempty"`
	At           time.Time         `json:"at,omitzero"`
	Seen         time.Time         `json:"seen,omitzero"`
	Runtime      string            `json:"runtime,omitempty"`
	ID           string            `json:"id,omitempty"`
	Name         string            `json:"name,omitempty"`
	Image        string            `json:"image,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	Microservice string            `json:"microservice,omitempty"`
	State        string            `json:"state,omitempty"`
	Run          *run              `json:"run,omitempty"`
	Exit         *exit             `json:"exit,omitempty"`
	OOM          *kill             `json:"oom,omitempty"`
	OldName      string            `json:"old_name,omitempty"`
	OldImage     string            `json:"old_image,omitempty"`
	Amends       bool              `json:"amends,omitempty"`
	FoundLater   bool              `json:"found_later,omitempty"`
	Detail       string            `json:"detail,omitempty"`

	// End is the last number of a run that ended in good order.
	End uint64 `json:"end,omitempty"`
}

type run struct {
	StartedAt time.Time `json:"started_at,omitzero"`
	Pid       int       `json:"pid,omitempty"`
	Netns     uint64    `json:"netns,omitempty"`
}

type exit struct {
	Code       int       `json:"code"`
	Signal     int       `json:"signal,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
}

type kill struct {
	At          time.Time `json:"at,omitzero"`
	Container   string    `json:"container,omitempty"`
	Cgroup      string    `json:"cgroup,omitempty"`
	Owner       string    `json:"owner,omitempty"`
	OwnerCgroup string    `json:"owner_cgroup,omitempty"`
	Pid         int       `json:"pid,omitempty"`
	Process     string    `json:"process,omitempty"`
	Constraint  string    `json:"constraint,omitempty"`
	Source      string    `json:"source,omitempty"`
	Count       int       `json:"count,omitempty"`
	Amends      bool      `json:"amends,omitempty"`
	All         bool      `json:"all,omitempty"`
}

// encode makes the line of an event.
func encode(e *Event) ([]byte, error) {
	r := record{
		Seq: e.Seq, Type: e.Type, At: e.At, Seen: e.Seen, Runtime: e.Runtime, ID: e.ID, Name: e.Name, Image: e.Image,
		Labels: e.Labels, Microservice: e.Microservice, State: e.State, OldName: e.OldName, OldImage: e.OldImage,
		Amends: e.Amends, FoundLater: e.FoundLater, Detail: e.Detail,
	}
	if e.Run != (container.Run{}) {
		r.Run = (*run)(&e.Run)
	}
	r.Exit, r.OOM = (*exit)(e.Exit), (*kill)(e.OOM)
	return json.Marshal(r)
}

// decode reads a line; an event of a type that is not known yet is one too.
func decode(text []byte) (r record, ok bool) {
	if json.Unmarshal(text, &r) != nil {
		return r, false
	}
	return r, r.End > 0 || r.Seq > 0 && r.Type != ""
}

func (r record) event() *Event {
	e := &Event{Seq: r.Seq, Event: container.Event{
		Type: r.Type, At: r.At, Seen: r.Seen, Runtime: r.Runtime, ID: r.ID, Name: r.Name, Image: r.Image,
		Labels: r.Labels, Microservice: r.Microservice, State: r.State, OldName: r.OldName, OldImage: r.OldImage,
		Amends: r.Amends, FoundLater: r.FoundLater, Detail: r.Detail, Exit: (*container.Exit)(r.Exit), OOM: (*container.OOMKill)(r.OOM),
	}}
	if r.Run != nil {
		e.Run = container.Run(*r.Run)
	}
	return e
}
