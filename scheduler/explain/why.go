package explain

import (
	"fmt"
	"strings"

	"github.com/plumb-net/plumb/scheduler/history"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Cause is one link of the chain from a key to what blocks it at the root.
type Cause struct {
	Status kv.Status
	// Text says it to people.
	Text string
	// Because are the causes below.
	Because []Cause
	// Roots are where the chain ends, of the topmost cause only; none for a key that
	// is as it should be.
	Roots []Root
	// Record is the transaction that last moved the key, if it is still kept.
	Record *history.Record
	// Chain leads from the last operation on the key up to what the transaction
	// itself touched: each step was made due by the key of the next.
	Chain []history.DoneStep
	// Again is a later transaction that asked for a configured key, which was
	// so already; zero if none did.
	Again uint64
}

// MaxCauses is how many keys an answer names.
const MaxCauses = 100

// Why explains n and what is below it. What was explained before in the same answer is
// only named again, and what depends above on the way here not even that; told has both,
// and is true for the latter.
func (e *Explainer) Why(n *graph.Node, told map[*graph.Node]bool, budget *int) Cause {
	*budget--
	s := e.statusNow(n)
	if _, again := told[n]; again {
		s.Missing = nil
		return Cause{Status: s, Text: fmt.Sprintf("%s, as told above", n.Key)}
	}
	c := Cause{Status: s, Text: causeText(n, s)}
	told[n] = false
	if s.State == kv.Configured || s.State == kv.Observed {
		return c
	}
	told[n] = true
	defer func() { told[n] = false }()
	named := map[*graph.Node]bool{n: true}
	below := func(t *graph.Node) {
		if t != nil && !named[t] && !told[t] && *budget > 0 {
			named[t] = true
			c.Because = append(c.Because, e.Why(t, told, budget))
		}
	}
	for _, edge := range n.Out {
		if !edge.OfDesired() || edge.State == graph.Satisfied {
			continue
		}
		if p := edge.Prefix(); p != "" {
			c.Because = append(c.Because, e.whyAny(edge, told, budget))
			continue
		}
		n := len(c.Because)
		below(edge.To)
		if len(c.Because) > n && unfit(e, edge) {
			c.Because[n].Text = unfitText(edge)
		}
	}
	for _, t := range e.holders(n) {
		below(t)
	}
	return c
}

// whyAny lists candidates under a prefix that are asked for and not in place.
func (e *Explainer) whyAny(edge *graph.Edge, told map[*graph.Node]bool, budget *int) Cause {
	c := Cause{Status: kv.Status{Key: edge.Prefix(), State: kv.Pending}, Text: noneOf(edge)}
	for _, n := range e.candidates(edge) {
		if *budget > 0 && !told[n] {
			c.Because = append(c.Because, e.Why(n, told, budget))
		}
	}
	return c
}

// causeText says how a node stands.
func causeText(n *graph.Node, s kv.Status) string {
	if n.Wanted() || n.Presence != graph.Absent {
		return sentence(s)
	}
	k := kind.Of(n)
	switch {
	case k == nil:
		return fmt.Sprintf("%s is not there", n.Key)
	case n.AsLastSeen():
		return fmt.Sprintf("%s was not there when it could be read last: %s", n.Key, kv.FirstLine(k.Look.Err))
	case k.Observed:
		return fmt.Sprintf("%s is not there: the last read did not find it", n.Key)
	}
	return fmt.Sprintf("%s is not there: not in the intent", n.Key)
}

func sentence(s kv.Status) string {
	if s.Reason == "" {
		return fmt.Sprintf("%s is %s", s.Key, s.State)
	}
	return fmt.Sprintf("%s is %s: %s", s.Key, s.State, s.Reason)
}

// String draws the chain as an indented tree.
func (c Cause) String() string {
	var b strings.Builder
	c.write(&b, "")
	c.writeChain(&b)
	return b.String()
}

// writeChain tells what led to the last operation.
func (c Cause) writeChain(b *strings.Builder) {
	if c.Record == nil {
		return
	}
	for i, d := range c.Chain {
		word := "last"
		if i > 0 {
			word = "because of"
		}
		fmt.Fprintf(b, "%s %s\n", word, d)
	}
	word := "because of"
	if len(c.Chain) == 0 {
		word = "last moved by"
	}
	fmt.Fprintf(b, word+" txn %d %s", c.Record.Seq, c.Record.Source)
	if c.Record.Note != "" {
		fmt.Fprintf(b, " %q", c.Record.Note)
	}
	b.WriteByte('\n')
	if c.Again != 0 {
		fmt.Fprintf(b, "asked for again, with nothing to do, by txn %d\n", c.Again)
	}
}

func (c Cause) write(b *strings.Builder, indent string) {
	b.WriteString(indent + c.Text + "\n")
	for _, m := range c.Status.Missing {
		fmt.Fprintf(b, "%s  needs %s: %s\n", indent, m.Need, m.Why)
	}
	for _, below := range c.Because {
		below.write(b, indent+"  └ ")
	}
}
