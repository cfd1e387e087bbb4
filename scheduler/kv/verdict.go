package kv

// Verdict is how to get from one value to another. The zero value is Same.
type Verdict struct {
	Change ChangeClass
	// Reason says what differs, for people; empty for Same.
	Reason string
}

// ChangeClass is the kind of a [Verdict].
type ChangeClass uint8

// The verdicts.
const (
	// Same: nothing is to be done.
	Same ChangeClass = iota
	// InPlace: Update gets there.
	InPlace
	// Replace: Delete, then Create. What depends on the object leaves before, and
	// comes back.
	Replace
	// InPlaceAlone: Update gets there, when nothing depends on the object. What does
	// leaves before, and comes back.
	InPlaceAlone
)

// String is the class in words: "in place".
func (c ChangeClass) String() string {
	return [...]string{"same", "in place", "replace", "in place, alone"}[c]
}

// Disruption classes what a step does to traffic.
type Disruption uint8

// The disruption classes, from harmless to worst.
const (
	// NoDisruption: traffic notices nothing.
	NoDisruption Disruption = iota
	// Brief: traffic is interrupted for a moment, as by a change in place.
	Brief
	// Disruptive: traffic is interrupted until something else is done, or for good.
	// A deletion is so if its kind does not say otherwise.
	Disruptive
	// Cascading: other things that are wanted have to go because of the step. The
	// planner finds that out itself.
	Cascading
)

// String is the class in a word: "none", "brief", "disruptive", "cascading".
func (d Disruption) String() string {
	return [...]string{"none", "brief", "disruptive", "cascading"}[d]
}

// Claim is a name that only one value may have at a time.
type Claim struct {
	// ID is compared; it need not be readable.
	ID string
	// What says it to people: `host name eth0 in microservice/web`.
	What string
}
