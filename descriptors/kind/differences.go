package kind

import (
	"fmt"
	"strings"

	"github.com/plumb-net/plumb/scheduler"
)

// Differences lists what of an object is not as asked, to decide how to get there.
type Differences []Difference

// Difference is one thing that is not as asked.
type Difference struct {
	What string // "mtu 1500 → 9000"
	// Replace: it cannot be changed while the object lives.
	Replace bool
}

// Must notes a difference that only a new object mends.
func (d *Differences) Must(differ bool, field string, actual, desired any) {
	if differ {
		*d = append(*d, Difference{What: say(field, actual, desired), Replace: true})
	}
}

// May notes a difference that can be mended in place.
func (d *Differences) May(differ bool, field string, actual, desired any) {
	if differ {
		*d = append(*d, Difference{What: say(field, actual, desired)})
	}
}

// Verdict names all that differs, what forces a new object first.
func (d Differences) Verdict() scheduler.Verdict {
	var must, may []string
	for _, one := range d {
		if one.Replace {
			must = append(must, one.What)
		} else {
			may = append(may, one.What)
		}
	}
	v := scheduler.Verdict{Reason: strings.Join(append(must, may...), ", ")}
	switch {
	case len(must) > 0:
		v.Change = scheduler.Replace
	case len(may) > 0:
		v.Change = scheduler.InPlace
	}
	return v
}

func say(field string, actual, desired any) string {
	return fmt.Sprintf("%s %s → %s", field, shown(actual), shown(desired))
}

func shown(v any) string {
	if s := fmt.Sprint(v); s != "" {
		return s
	}
	return "none"
}
