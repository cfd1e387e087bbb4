package events

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// What containers and runtimes say of themselves is bounded, so that one event
// takes no more than a small share of what is kept: of a megabyte of labels the
// first are as good as all. [maxEvent] is what it may come to.
const (
	maxText      = 1 << 10
	maxLabelName = 256
	maxLabels    = 16 << 10 // bytes of all labels, with what each takes
	labelCost    = 64       // beside its text
	maxEvent     = 64 << 10
)

// bound cuts what is too long, and says so where it is cut. What others share
// is not touched.
func (e *Event) bound() {
	for _, text := range []*string{
		&e.Runtime, &e.ID, &e.Name, &e.Image, &e.Microservice, &e.State, &e.OldName, &e.OldImage, &e.Detail,
	} {
		*text = cut(*text, maxText)
	}
	if x := e.Exit; x != nil && len(x.Reason) > maxText {
		c := *x
		c.Reason = cut(c.Reason, maxText)
		e.Exit = &c
	}
	if e.OOM != nil {
		e.boundOOM()
	}
	e.boundLabels()
}

func (e *Event) boundOOM() {
	c := *e.OOM
	for _, text := range []*string{&c.Container, &c.Cgroup, &c.Owner, &c.OwnerCgroup, &c.Process, &c.Constraint, &c.Source} {
		*text = cut(*text, maxText)
	}
	if c != *e.OOM {
		e.OOM = &c
	}
}

// boundLabels keeps labels in the order of their names until there is no more
// room. Detail counts those that are left out.
func (e *Event) boundLabels() {
	bytes, long := 0, false
	for k, v := range e.Labels {
		bytes += len(k) + len(v)
		long = long || len(k) > maxLabelName || len(v) > maxText
	}
	if bytes+labelCost*len(e.Labels) <= maxLabels && !long {
		return
	}
	kept, room, left := map[string]string{}, maxLabels, 0
	for _, k := range slices.Sorted(maps.Keys(e.Labels)) {
		v := cut(e.Labels[k], maxText)
		if len(k) > maxLabelName || labelCost+len(k)+len(v) > room {
			left++
			continue
		}
		kept[k] = v
		room -= labelCost + len(k) + len(v)
	}
	e.Labels = kept
	if left > 0 {
		e.Detail = fmt.Sprintf("%d labels are left out: the labels of the container have %d bytes", left, bytes)
	}
}

// cut cuts a text between two characters and says how much it lacks.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	n := limit
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return fmt.Sprintf("%s… (%d bytes more)", text[:n], len(text)-n)
}
