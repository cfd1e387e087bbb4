package switchd

import "errors"

// Errors of requests.
var (
	// ErrDown: there is no connection. What the dataplane has is not known.
	ErrDown = errors.New("no connection to the dataplane")
	// ErrExist: what is to be made is there; ErrNotExist: what it needs is not.
	ErrExist    = errors.New("exists")
	ErrNotExist = errors.New("does not exist")
)

// Port is a port on a tap device. Tag is a text that its maker chooses.
type Port struct {
	Index uint32
	Tap   string
	Tag   string
	Up    bool // it has a link
}

// Bridge joins ports.
type Bridge struct {
	Name  string
	Ports []uint32
}

// Route leads a network to what is behind a port of a bridge.
type Route struct {
	Network string
	Bridge  string
	Port    uint32
}

// State is all that the dataplane has, sorted.
type State struct {
	Boot    int // counts its lives
	Ports   []Port
	Bridges []Bridge
	Routes  []Route
}

// Event says that something moved: the link of a port, or with All everything,
// since the connection came or went.
type Event struct {
	All bool
	Tag string
}

// Requests and replies as they are sent.
type (
	request struct {
		ID      uint64
		Op      string
		Ports   []Port   `json:",omitempty"`
		Bridges []Bridge `json:",omitempty"`
		Routes  []Route  `json:",omitempty"`
	}
	reply struct {
		ID     uint64 // 0 for an event
		Ports  []Port
		Errors []string // of each thing in the request, "" for none
		State  *State
		Event  *Event
	}
)

// toError is an error that came as text.
func toError(text string) error {
	switch text {
	case "":
		return nil
	case ErrExist.Error():
		return ErrExist
	case ErrNotExist.Error():
		return ErrNotExist
	}
	return errors.New(text)
}
