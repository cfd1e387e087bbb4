package schedulertest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler"
)

func (x *trial[V, M]) registers() {
	d := x.d
	d.Watch = nil // nothing shall run
	if _, err := scheduler.Register(scheduler.New(scheduler.Options{}), d); err != nil {
		x.fail(d.Prefix, "it is refused: %v", err)
	}
	for _, s := range x.spec.Samples {
		if !strings.HasPrefix(string(s.Key), string(d.Prefix)) {
			x.fail(s.Key, "the sample does not lie under %s", d.Prefix)
		}
	}
}

// compare is the verdict that the scheduler would come to.
func (x *trial[V, M]) compare(k scheduler.Key, from, to V) scheduler.Verdict {
	from, to = x.shown(from), x.shown(to)
	if x.d.Compare != nil {
		return x.d.Compare(k, from, to)
	}
	switch {
	case x.equal(k, from, to):
		return scheduler.Verdict{}
	case x.d.Update != nil:
		return scheduler.Verdict{Change: scheduler.InPlace, Reason: "they differ"}
	}
	return scheduler.Verdict{Change: scheduler.Replace, Reason: "they differ"}
}

func (x *trial[V, M]) equal(k scheduler.Key, a, b V) bool {
	if x.d.Equal != nil {
		return x.d.Equal(k, a, b)
	}
	if e, ok := any(a).(interface{ Equal(other V) bool }); ok {
		return e.Equal(b)
	}
	t := reflect.TypeFor[V]()
	if t.Comparable() && t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface {
		return any(a) == any(b)
	}
	return reflect.DeepEqual(a, b)
}

func inPlace(v scheduler.Verdict) bool {
	return v.Change == scheduler.InPlace || v.Change == scheduler.InPlaceAlone
}

// shown is a value without its secrets, as it is compared.
func (x *trial[V, M]) shown(v V) V {
	if x.d.Secrets != nil {
		v, _ = x.d.Secrets(v)
	}
	return v
}

func (x *trial[V, M]) secrets() {
	x.values(func(k scheduler.Key, v V) {
		shown, secrets := x.d.Secrets(v)
		texts := []string{show(shown)}
		if x.d.Encode != nil {
			text, err := x.d.Encode(shown)
			if err != nil {
				x.fail(k, "what is shown of %s cannot be encoded: %v", show(shown), err)
			}
			texts = append(texts, string(text))
		}
		for _, s := range secrets {
			for _, text := range texts {
				if s != "" && strings.Contains(text, s) {
					x.fail(k, "what is shown of it tells a secret: %s", text)
				}
			}
		}
		again, left := x.d.Secrets(shown)
		if !x.spec.Identical(shown, again) {
			x.fail(k, "what is shown of it is shown as something else again: %s", show(again))
		}
		if len(secrets) == 0 && len(left) > 0 {
			x.fail(k, "what is shown of it has secrets, it has none")
		}
	})
}

// values tries something with every value of every sample.
func (x *trial[V, M]) values(f func(k scheduler.Key, v V)) {
	for _, s := range x.spec.Samples {
		x.at = s.Key
		for _, v := range s.Values {
			f(s.Key, v)
		}
	}
}

func (x *trial[V, M]) pure() {
	x.values(func(k scheduler.Key, v V) {
		before := x.spec.Clone(v)
		for _, s := range x.spec.Samples {
			for _, other := range s.Values {
				x.purely(k, v, other)
			}
		}
		if !x.spec.Identical(v, before) {
			x.fail(k, "a pure function changed its argument from %s to %s", show(before), show(v))
		}
	})
}

// purely calls all pure functions on values and on copies of them.
func (x *trial[V, M]) purely(k scheduler.Key, v, other V) {
	d, otherBefore := x.d, x.spec.Clone(other)
	for name, call := range map[string]func(v, other V) any{
		"Needs":    optional(d.Needs != nil, func(v, _ V) any { return needTexts(d.Needs(k, v)) }),
		"Derive":   optional(d.Derive != nil, func(v, _ V) any { return changeTexts(d.Derive(k, v)) }),
		"Claims":   optional(d.Claims != nil, func(v, _ V) any { return d.Claims(k, v) }),
		"Validate": optional(d.Validate != nil, func(v, _ V) any { return fmt.Sprint(d.Validate(k, v)) }),
		"Secrets": optional(d.Secrets != nil, func(v, _ V) any {
			shown, secrets := d.Secrets(v)
			return []any{show(shown), secrets}
		}),
		"Lane":       optional(d.Lane != nil, func(v, _ V) any { return d.Lane(k, v) }),
		"Equal":      optional(d.Equal != nil, func(v, other V) any { return d.Equal(k, v, other) }),
		"Compare":    func(v, other V) any { return x.compare(k, v, other) },
		"Disruption": optional(d.Disruption != nil, func(v, other V) any { return x.disruptions(k, v, other) }),
	} {
		if call == nil {
			continue
		}
		first := call(v, other)
		if again := call(v, other); !reflect.DeepEqual(first, again) {
			x.fail(k, "%s of %s gives %v, and then %v", name, show(v), first, again)
		}
		if copied := call(x.spec.Clone(v), x.spec.Clone(other)); !reflect.DeepEqual(first, copied) {
			x.fail(k, "%s of %s gives %v, and of a copy %v", name, show(v), first, copied)
		}
	}
	if !x.spec.Identical(other, otherBefore) {
		x.fail(k, "a pure function changed its argument from %s to %s", show(otherBefore), show(other))
	}
}

// disruptions also asks about making and deleting.
func (x *trial[V, M]) disruptions(k scheduler.Key, v, other V) string {
	var none V
	return fmt.Sprint(x.d.Disruption(k, v, other), x.d.Disruption(k, none, v), x.d.Disruption(k, v, none))
}

func optional[F any](there bool, f F) (none F) {
	if there {
		return f
	}
	return none
}

// needTexts are needs without their functions, which cannot be compared.
func needTexts(needs []scheduler.Need) (texts []string) {
	for _, n := range needs {
		texts = append(texts, fmt.Sprintf("%s %s together:%t pass:%t tell:%t project:%t agree:%t", n, n.Why, n.Together,
			n.Pass != nil, n.Tell != nil, n.Project != nil, n.Agree != nil))
	}
	return texts
}

func changeTexts(changes []scheduler.Change) (texts []string) {
	for _, c := range changes {
		texts = append(texts, fmt.Sprintf("%s %s %v", c.Key, show(c.Value), c.Invalid))
	}
	return texts
}

func (x *trial[V, M]) validate() {
	x.values(func(k scheduler.Key, v V) {
		if err := x.d.Validate(k, v); err != nil {
			x.fail(k, "the sample %s is refused: %v", show(v), err)
		}
	})
	for k, v := range x.spec.Refused {
		err := x.d.Validate(k, v)
		var invalid *scheduler.InvalidError
		switch {
		case err == nil:
			x.fail(k, "%s is let pass", show(v))
		case !errors.As(err, &invalid):
			x.fail(k, "%s is refused with a %T, %v; want an InvalidError", show(v), err, err)
		case len(invalid.Fields) == 0 || invalid.Fields[0].Error == "":
			x.fail(k, "%s is refused without saying what is wrong", show(v))
		}
	}
}

func (x *trial[V, M]) comparable() {
	x.values(func(k scheduler.Key, v V) {
		if verdict := x.compare(k, v, x.spec.Clone(v)); verdict.Change != scheduler.Same {
			x.fail(k, "%s is not the same as a copy of it: %s", show(v), verdict.Reason)
		}
	})
	for _, s := range x.spec.Samples {
		x.at = s.Key
		for _, from := range s.Values {
			for _, to := range s.Values {
				x.verdict(s.Key, from, to)
			}
		}
	}
}

func (x *trial[V, M]) verdict(k scheduler.Key, from, to V) {
	verdict := x.compare(k, from, to)
	same := verdict.Change == scheduler.Same
	switch {
	case verdict.Change > scheduler.InPlaceAlone:
		x.fail(k, "from %s to %s: there is no verdict %d", show(from), show(to), verdict.Change)
	case inPlace(verdict) && x.d.Update == nil:
		x.fail(k, "from %s to %s: in place, but there is no Update", show(from), show(to))
	case !same && verdict.Reason == "":
		x.fail(k, "from %s to %s: no reason is given", show(from), show(to))
	}
	if x.d.Equal != nil && x.d.Compare != nil && x.d.Equal(k, from, to) != same {
		x.fail(k, "from %s to %s: Equal says %t, Compare %q", show(from), show(to), !same, verdict.Reason)
	}
}

func (x *trial[V, M]) needs() {
	x.values(func(k scheduler.Key, v V) {
		for _, n := range x.d.Needs(k, v) {
			slash := func(key scheduler.Key) bool { return strings.HasSuffix(string(key), "/") }
			switch {
			case (n.Key == "") == (n.Prefix == ""):
				x.fail(k, "%s needs the key %q and the prefix %q", show(v), n.Key, n.Prefix)
			case slash(n.Key), n.Prefix != "" && !slash(n.Prefix),
				n.Prefix == "" && len(n.Also) > 0, slices.ContainsFunc(n.Also, func(k scheduler.Key) bool { return !slash(k) }):
				x.fail(k, "%s needs %s", show(v), n)
			case n.Key == k:
				x.fail(k, "%s needs itself", show(v))
			case n.Why == "":
				x.fail(k, "%s needs %s and does not say what for", show(v), n)
			}
		}
	})
}

func (x *trial[V, M]) derive() {
	known := func(k scheduler.Key) bool {
		for _, prefix := range x.spec.Kinds {
			if strings.HasPrefix(string(k), string(prefix)) && k != prefix {
				return true
			}
		}
		return len(x.spec.Kinds) == 0 && strings.Contains(strings.Trim(string(k), "/"), "/")
	}
	x.values(func(k scheduler.Key, v V) {
		seen := map[scheduler.Key]bool{}
		for _, c := range x.d.Derive(k, v) {
			switch {
			case seen[c.Key]:
				x.fail(k, "%s derives %s twice", show(v), c.Key)
			case !known(c.Key) || c.Key == k:
				x.fail(k, "%s derives %s, which is of no known kind; known are %v", show(v), c.Key, x.spec.Kinds)
			case c.Value == nil && c.Invalid == nil:
				x.fail(k, "%s derives %s without a value", show(v), c.Key)
			}
			seen[c.Key] = true
		}
	})
}

func (x *trial[V, M]) codec() {
	x.values(func(k scheduler.Key, v V) {
		bytes, err := x.d.Encode(v)
		if err != nil {
			x.fail(k, "Encode of %s failed: %v", show(v), err)
			return
		}
		if again, _ := x.d.Encode(x.spec.Clone(v)); string(again) != string(bytes) {
			x.fail(k, "Encode of %s gives %q, and of a copy %q", show(v), bytes, again)
		}
		back, err := x.d.Decode(bytes)
		if err != nil || !x.spec.Identical(back, v) {
			x.fail(k, "%s comes back as %s, error %v", show(v), show(back), err)
			return
		}
		if again, _ := x.d.Encode(back); string(again) != string(bytes) {
			x.fail(k, "Encode of %s gives %q, and of what Decode made of that %q", show(v), bytes, again)
		}
	})
	_, _ = x.d.Decode([]byte{0xff, 0, '{'}) // an error or a value, but no panic
	_, _ = x.d.Decode(nil)
}
