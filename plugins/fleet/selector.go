package fleet

import (
	"fmt"
	"path"
	"strings"

	"github.com/plumb-net/plumb/plugins/fleet/record"
)

// Selector chooses agents by their labels: all of its terms have to hold.
type Selector []term

// term is one of role=web, role!=web, role and !role.
type term struct {
	name, value string
	any         bool // no value is asked for
	not         bool
}

// ParseSelector reads terms with commas between them. Nothing chooses all.
func ParseSelector(text string) (Selector, error) {
	var out Selector
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		var t term
		switch name, value, is := strings.Cut(part, "="); {
		case is && strings.HasSuffix(name, "!"):
			t = term{name: strings.TrimSuffix(name, "!"), value: value, not: true}
		case is:
			t = term{name: name, value: strings.TrimPrefix(value, "=")} // == is meant, too
		case strings.HasPrefix(part, "!"):
			t = term{name: part[1:], any: true, not: true}
		default:
			t = term{name: part, any: true}
		}
		t.name = strings.TrimSpace(t.name)
		if !record.CheckLabel(t.name) || t.value != "" && !record.CheckLabel(t.value) {
			return nil, fmt.Errorf("selector %q: want role=web, role!=web, role or !role, with commas between them", part)
		}
		out = append(out, t)
	}
	return out, nil
}

// Matches reports whether the selector chooses who has the labels. Who lacks a label is
// chosen by role!=web.
func (s Selector) Matches(labels map[string]string) bool {
	for _, t := range s {
		value, has := labels[t.name]
		holds := has && (t.any || value == t.value)
		if holds == t.not {
			return false
		}
	}
	return true
}

// CheckPattern refuses what is no pattern of labels: a label in which * and ? stand for
// other characters.
func CheckPattern(p string) error {
	if _, err := path.Match(p, ""); err != nil || p == "" {
		return fmt.Errorf("%q is no pattern of labels; write web-* or web-[12]", p)
	}
	return nil
}

func matches(pattern, label string) bool {
	ok, _ := path.Match(pattern, label)
	return ok
}
