package scheduler_test

import (
	"errors"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// The language of the stories: kinds, transactions, values.

func parseKind(l string) kindLine {
	f := strings.Fields(l)
	k := kindLine{name: f[0]}
	for _, o := range f[1:] {
		switch {
		case o == "observed":
			k.options.Observed = true
		case o == "noupdate":
			k.options.NoUpdate = true
		case o == "deaf":
			k.options.Deaf = true
		case o == "nowatch":
			k.options.NoWatch = true
		case o == "batch":
			k.options.Batch = true
		case strings.HasPrefix(o, "derives="):
			k.options.DerivedTo = o[len("derives="):]
		default:
			panic("kind option " + o)
		}
	}
	return k
}

// parseTxn reads "key text [needs=…] [peer=…] [derives=…] [claims=…] [fixed]
// [bad]", "key -" to withdraw, "key ?" for a value that cannot be decoded,
// "look key" and "look all". The arguments are the source and options.
func (st *story) parseTxn(args, lines []string) scheduler.Txn {
	t := scheduler.Txn{Source: st.sources[0]}
	for _, a := range args {
		switch {
		case a == "revert":
			t.Revert = true
		case a == "complete":
			t.Complete = true
		case strings.HasPrefix(a, "note="):
			t.Note = a[len("note="):]
		case slices.Contains(st.sources, a):
			t.Source = a
		case a != "result" && a != "nowait":
			t.Source = a
		}
	}
	for _, l := range lines {
		f := strings.Fields(l)
		k := scheduler.Key(f[0])
		switch {
		case f[0] == "look" && f[1] == "all":
			t.LookAll = true
		case f[0] == "look":
			t.Look = append(t.Look, scheduler.Key(f[1]))
		case f[1] == "-":
			t.Want = append(t.Want, scheduler.Withdraw(k))
		case f[1] == "?":
			t.Want = append(t.Want, scheduler.SetInvalid(k, errors.New("it cannot be decoded")))
		default:
			t.Want = append(t.Want, scheduler.Set(k, parseThing(f[1:])))
		}
	}
	return t
}

func parseThing(f []string) schedulertest.Thing {
	t := schedulertest.Thing{Text: f[0]}
	for _, o := range f[1:] {
		name, list, _ := strings.Cut(o, "=")
		values := strings.Split(list, ",")
		switch name {
		case "needs":
			t.Needs = values
		case "derives":
			t.Derives = values
		case "claims":
			t.Claims = values
		case "peer":
			t.Peer = list
		case "fixed":
			t.Fixed = true
		case "bad":
			t.Bad = true
		default:
			panic("thing option " + o)
		}
	}
	return t
}
