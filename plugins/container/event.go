package container

import (
	"fmt"
	"strings"
	"time"

	"github.com/plumb-net/plumb/plugins/container/lifecycle"
)

// EventType is what happened to a container.
type EventType string

// The types of events. Of each container there is Discovered or Created first
// and Removed last; between them, of each run, one Started (none if it was
// discovered running) and at most one Died.
const (
	// Discovered: it was there before the tracker.
	Discovered EventType = "discovered"
	Created    EventType = "created"
	Started    EventType = "started"
	Died       EventType = "died"
	// OOM: a process in it was killed for want of memory. It may live on.
	OOM      EventType = "oom"
	Paused   EventType = "paused"
	Unpaused EventType = "unpaused"
	Renamed  EventType = "renamed"
	// ImageChanged: its image bears another name now.
	ImageChanged EventType = "image_changed"
	Removed      EventType = "removed"
	// LabelTaken: it has the service label of another container, which runs on.
	LabelTaken EventType = "label_taken"
	// LabelRefused: it does not carry the service label that it bears.
	LabelRefused EventType = "label_refused"
)

// Event tells what happened to a container. Its map and pointers are shared by
// all who get it and must not be changed.
type Event struct {
	Type EventType
	// At is when it happened, by the word of the runtime or the kernel; where
	// they do not tell, when it was noticed. The times of a container may go
	// back when somebody sets the clock; the order of events is that in which
	// they are told.
	At time.Time
	// Seen is when the tracker noticed.
	Seen time.Time
	// Runtime and ID name the container. Name, Image, Labels and Microservice
	// (the service label) are as they were at the event.
	Runtime, ID  string
	Name, Image  string
	Labels       map[string]string
	Microservice string
	// State is the runtime's word, of a Discovered.
	State string
	// Run is the run that it is about: of Started, Died, Paused, Unpaused, and
	// of Discovered if it runs.
	Run Run
	// Exit is how a run ended, of a Died, and of a Discovered that does not run.
	Exit *Exit
	// OOM tells of the kill, of an OOM; nil if only the runtime told of it. Of a Died
	// it is a kill in that run which did not end it: of a child of its first process.
	OOM *OOMKill
	// Detail says more in words, of a LabelTaken and a LabelRefused.
	Detail string
	// OldName is the former name, of a Renamed; OldImage of an ImageChanged.
	OldName, OldImage string
	// Amends: it tells more of something that was told already by an event of
	// the same type, and does not count as another one.
	Amends bool
	// FoundLater: it happened while nobody listened, before the tracker did. At
	// is when it was found, if nobody knows more.
	FoundLater bool
}

// Run and Exit are a run of a container and how it ended.
type (
	Run  = lifecycle.Run
	Exit = lifecycle.Exit
)

// OOMKill is what the kernel told of a process that it killed for want of
// memory. Ids are those in the paths of cgroups; "" is unknown or none.
type OOMKill struct {
	At time.Time
	// Container is the id of the container of the victim, Cgroup its cgroup.
	Container, Cgroup string
	// Owner is the id of the container whose limit was hit, OwnerCgroup that
	// cgroup. They are those of the victim unless the limit stands above it.
	Owner, OwnerCgroup string
	// Pid of the victim in the host's namespace, 0 if unknown; Process its name.
	Pid     int
	Process string
	// Constraint is the kernel's word: CONSTRAINT_MEMCG, CONSTRAINT_NONE.
	Constraint string
	// Source says who told: kmsg, cgroup.
	Source string
	// Count is how many kills this tells of, where only a counter is known; 0
	// is 1.
	Count int
	// Amends: it names a victim of a kill that was told of before.
	Amends bool
	// All: the kernel kills all processes of the container.
	All bool
}

// Observer gets the events of a tracker, in their order, from one goroutine,
// each after what the tracker's readers see has it. It must be quick and must
// not block.
type Observer func(Event)

// String tells the event in one line, without times.
func (e Event) String() string {
	var b strings.Builder
	b.WriteString(string(e.Type) + " " + e.Runtime + ":" + e.ID)
	if e.Name != "" && e.Name != e.ID {
		b.WriteString(" name=" + e.Name)
	}
	switch {
	case e.Type == Discovered:
		b.WriteString(" " + e.State)
	case e.OldName != "":
		b.WriteString(" was=" + e.OldName)
	case e.OldImage != "":
		b.WriteString(" image=" + e.Image + " was=" + e.OldImage)
	}
	if e.Run.Pid != 0 {
		fmt.Fprintf(&b, " pid=%d netns=%d", e.Run.Pid, e.Run.Netns)
	}
	if x := e.Exit; x != nil {
		fmt.Fprintf(&b, " exit=%d", x.Code)
		if x.Signal != 0 {
			fmt.Fprintf(&b, " signal=%d", x.Signal)
		}
		if x.Reason != "" {
			fmt.Fprintf(&b, " reason=%q", x.Reason)
		}
	}
	if k := e.OOM; k != nil {
		fmt.Fprintf(&b, " victim=%d by=%s", k.Pid, k.Source)
	}
	if e.Detail != "" {
		b.WriteString(" " + e.Detail)
	}
	if e.Amends {
		b.WriteString(" (amends)")
	}
	if e.FoundLater {
		b.WriteString(" (found later)")
	}
	return b.String()
}
