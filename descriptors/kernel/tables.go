package kernel

import (
	"context"
	"errors"
	"slices"
)

// Tables are the tables of nftables in a namespace. plugins/nftables implements them.
type Tables interface {
	// Table reads a table; ErrNotExist if there is none.
	Table(ctx context.Context, ns NS, family, name string) (Table, error)
	// CreateTable makes a table with all that is in it, or nothing: ErrExist if there
	// is one. ReplaceTable puts it in place of the one that is there, if any, so
	// that nobody sees neither or half of them. The error of a text that is not
	// understood is a [TextError].
	CreateTable(ctx context.Context, ns NS, t Table) error
	ReplaceTable(ctx context.Context, ns NS, t Table) error
	// ReplaceElements gives the sets and maps of these names the elements that they have
	// in t, all at once, and leaves all else in the table as it is.
	ReplaceElements(ctx context.Context, ns NS, t Table, names []string) error
	// DeleteTable removes a table; ErrNotExist if there is none.
	DeleteTable(ctx context.Context, ns NS, family, name string) error
	// Generation is one more whenever somebody has changed any table of the namespace.
	Generation(ns NS) (uint32, error)
}

// TableEvents say of which namespaces Watch tells that their tables were changed: few
// have tables of ours, and each takes a socket.
type TableEvents interface {
	// WatchTables has it tell of a namespace from now on, UnwatchTables no more. When the
	// namespace is closed it ends by itself.
	WatchTables(ns NS) error
	UnwatchTables(ns NS)
}

// TablesChange is one change of the tables of a namespace, which may be of many objects.
type TablesChange struct {
	// Generation is what [Tables] tells after the change.
	Generation uint32
}

// ErrNoProgram: what is needed to do it is not installed.
var ErrNoProgram = errors.New("not installed")

// Table is a table of nftables. What was read is in the spelling of nft, whatever
// it was when it was made.
type Table struct {
	Family     string
	Name       string
	Comment    string // at most MaxComment bytes
	Chains     []TableChain
	Sets       []TableSet
	Maps       []TableSet
	Flowtables []TableFlowtable
}

// TableChain is a chain of rules.
type TableChain struct {
	Name     string
	Type     string // "" if nothing comes to it but by a jump
	Hook     string
	Devices  []string // names of links, at whose hook it is
	Priority string
	Policy   string
	Rules    []string
}

// TableSet is a named set or, with Data, a map.
type TableSet struct {
	Name      string
	Type      string
	Data      string
	Flags     []string
	Timeout   string
	Size      uint32
	AutoMerge bool
	Counter   bool
	// Elements are read in order, and not at all of what packets or time change.
	Elements []string
}

// IsConstant reports whether its elements are for good.
func (s TableSet) IsConstant() bool { return slices.Contains(s.Flags, "constant") }

// IsChanging reports whether packets or time change its elements.
func (s TableSet) IsChanging() bool {
	return s.Timeout != "" || slices.Contains(s.Flags, "dynamic") || slices.Contains(s.Flags, "timeout")
}

// TableFlowtable has the packets of connections pass by the chains.
type TableFlowtable struct {
	Name     string
	Priority string
	Devices  []string // names of links
	Counter  bool
	Offload  bool
}

// MaxComment bounds the comment of a table in bytes.
const MaxComment = 128

// TextError is a part of a table that is not understood.
type TextError struct {
	Field string // its place in the table: chains[0].rules[1]
	Text  string // the rule or the element; "" if it is neither
	Err   error
}

func (e *TextError) Error() string { return e.Field + ": " + e.Err.Error() }
func (e *TextError) Unwrap() error { return e.Err }
