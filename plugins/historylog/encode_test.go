package historylog

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// TestEncode: a line is as encoding/json writes it, whatever is in it and whatever is not.
func TestEncode(t *testing.T) {
	for seed := range uint64(3000) {
		l := random{rand.New(rand.NewPCG(seed, 1))}.line()
		if l.Deviation != nil {
			l.Deviation.Why = "" // < and such are written otherwise there, and read the same
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(l); err != nil {
			t.Fatal(err)
		}
		if got := string(l.appendTo(nil)) + "\n"; got != want.String() {
			t.Fatalf("line %d:\n got %s\nwant %s", seed, got, want.String())
		}
	}
}

type random struct{ *rand.Rand }

// some is empty half of the time.
func some[E any](r random, make func() E) (out []E) {
	for range r.IntN(4) - 1 {
		out = append(out, make())
	}
	return out
}

func (r random) text() string {
	words := []string{"", "route/r1", "web", `"`, `\`, "a\nb", "<&>", "ü\u2028", "\xff", "\x00\x7f"}
	return words[r.IntN(len(words))]
}

func (r random) key() scheduler.Key { return scheduler.Key(r.text()) }

func (r random) time() time.Time {
	return []time.Time{{}, noon, noon.Add(time.Duration(r.Int64N(1e9))), noon.In(time.FixedZone("", -5400))}[r.IntN(4)]
}

func (r random) step() step {
	return step{Op: scheduler.Operation(r.IntN(4)), Key: r.key(), Via: r.key(), Start: r.time(), Waited: time.Duration(r.IntN(3)),
		Took: time.Duration(r.IntN(3)) - 1, Error: r.text(), Lapsed: r.IntN(2) == 0}
}

func (r random) moment() moment {
	return moment{State: scheduler.State(r.IntN(3)), Origin: r.text(), Desired: scheduler.Encoded(r.text()), Actual: scheduler.Encoded(r.text())}
}

func (r random) line() line {
	l := line{Seq: r.Uint64(), Time: r.time(), Source: r.text(), Note: r.text(), Written: r.time(), Complete: r.IntN(2) == 0,
		Asked: some(r, r.key), AskedTotal: r.IntN(3), Planned: some(r, r.step), Done: some(r, r.step),
		Changed: some(r, func() changed { return changed{r.key(), r.time(), r.moment(), r.moment()} }),
		Settled: r.time(), Dropped: r.IntN(2), Missed: r.IntN(2), Part: r.IntN(2) == 0}
	if r.IntN(2) == 0 {
		l.Deviation = &scheduler.Deviation{Step: r.IntN(3), Why: r.text()}
	}
	return l
}
