package kernel

import (
	"context"
	"errors"
	"fmt"
)

// Tables are the tables of nftables in a namespace. plugins/nftables implements them.
type Tables interface {
	// Table reads a table; ErrNotExist if there is none.
	Table(ctx context.Context, ns NS, family, name string) (Table, error)
	// CreateTable makes a table with all that is in it, or nothing: ErrExist if there
	// is one. ReplaceTable puts it in place of the one that is there, if any, so
	// that nobody sees neither or half of them. The error of a text that is not
	// understood is a [RuleError].
	CreateTable(ctx context.Context, ns NS, t Table) error
	ReplaceTable(ctx context.Context, ns NS, t Table) error
	// DeleteTable removes a table; ErrNotExist if there is none.
	DeleteTable(ctx context.Context, ns NS, family, name string) error
	// Generation changes whenever somebody has changed any table of the namespace.
	Generation(ns NS) (uint32, error)
}

// ErrNoProgram: what is needed to do it is not installed.
var ErrNoProgram = errors.New("not installed")

// Table is a table of nftables. What was read is in the spelling of nft, whatever
// it was when it was made.
type Table struct {
	Family  string
	Name    string
	Comment string // at most MaxComment bytes
	Chains  []TableChain
}

// TableChain is a chain of rules.
type TableChain struct {
	Name     string
	Type     string // "" if nothing comes to it but by a jump
	Hook     string
	Priority string
	Policy   string
	Rules    []string
}

// MaxComment bounds the comment of a table in bytes.
const MaxComment = 128

// RuleError is a part of a table that is not understood.
type RuleError struct {
	Chain int
	Rule  int // -1: what is said of the chain itself
	Err   error
}

func (e *RuleError) Error() string { return e.Field() + ": " + e.Err.Error() }
func (e *RuleError) Unwrap() error { return e.Err }

// Field is the place in the table: chains[0].rules[1].
func (e *RuleError) Field() string {
	if e.Rule < 0 {
		return fmt.Sprintf("chains[%d]", e.Chain)
	}
	return fmt.Sprintf("chains[%d].rules[%d]", e.Chain, e.Rule)
}
