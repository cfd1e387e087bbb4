package attributes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// row is some fields of a kind, on a key of their own.
type row struct {
	name   string
	fields []string // by their names in the models, without the kind
	// there are commands by which others make things beside ours, before anything.
	there []string
	// before are further keys that are there from the first step to the end.
	before map[string]string
	key    string
	value  map[string]any    // without the fields in question
	sets   [2]map[string]any // what one and two add to it
	shows  []string
	others []string // what others do that the kernel tells of
	quiet  []string // what it does not tell of: it is found when the key is read
	needed bool     // without the fields the value is not valid

	said    map[string]string // what was shown, by step
	lacking bool              // the kernel does not have it
	faults  []string
}

// rowOf reads a row of testdata/attributes. Commands run in the agent's own namespace; $HOST
// is the directory of the host, $PROTO, $GROUP and $HANDLE are the agent's numbers for routes, links and qdiscs:
//
//	row NAME
//	fields FIELD…     the fields that it plays, of the kind of its key
//	there COMMAND     others make something beside ours
//	before KEY VALUE  another key
//	key KEY VALUE     the key without them
//	one VALUE         what is added to its value at first,
//	two VALUE         and then instead
//	kept              it cannot be taken back without making another thing
//	show COMMAND      what the kernel has of it; of JSON some fields: show COMMAND -> FIELD…
//	others COMMAND    somebody changes it, and it is repaired
//	quiet COMMAND     the same, where the kernel tells nobody: it is repaired when it is read
func rowOf(t testing.TB, d *datadriven.TestData) *row {
	t.Helper()
	r := &row{name: d.CmdArgs[0].Key, before: map[string]string{}, said: map[string]string{}}
	for line := range strings.Lines(d.Input) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch verb {
		case "fields":
			r.fields = append(r.fields, strings.Fields(rest)...)
		case "there":
			r.there = append(r.there, rest)
		case "before":
			key, value, _ := strings.Cut(rest, " ")
			r.before[key] = value
		case "key":
			var value string
			r.key, value, _ = strings.Cut(rest, " ")
			r.value = object(t, d, value)
		case "one":
			r.sets[0] = object(t, d, rest)
		case "two":
			r.sets[1] = object(t, d, rest)
		case "kept":
			r.needed = true
		case "show":
			r.shows = append(r.shows, rest)
		case "others":
			r.others = append(r.others, rest)
		case "quiet":
			r.quiet = append(r.quiet, rest)
		default:
			d.Fatalf(t, "unknown line %q", line)
		}
	}
	if _, err := models.Decode(r.key, []byte(strings.ReplaceAll(r.with(nil), "$HOST", "/host"))); err != nil {
		r.needed = true
	}
	return r
}

func object(t testing.TB, d *datadriven.TestData, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		d.Fatalf(t, "%s: %v", text, err)
	}
	return v
}

func (r *row) kind() string { kind, _, _ := strings.Cut(r.key, "/"); return kind }

// with is the value with something merged into it, as RFC 7396 says.
func (r *row) with(set map[string]any) string {
	text, err := json.Marshal(merge(r.value, set))
	if err != nil {
		panic(err) // it was read from JSON
	}
	return string(text)
}

func merge(to, from map[string]any) map[string]any {
	all := maps.Clone(to)
	for k, v := range from {
		was, is1 := all[k].(map[string]any)
		is, is2 := v.(map[string]any)
		switch {
		case is1 && is2:
			all[k] = merge(was, is)
		case v == nil:
			delete(all, k)
		default:
			all[k] = v
		}
	}
	return all
}

func (r *row) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// shown is what the kernel has of it.
func (r *row) shown(h *host.Host) string {
	var b strings.Builder
	for _, show := range r.shows {
		command, fields, some := strings.Cut(show, " -> ")
		out, err := h.Own.Try(words(h, command)...)
		for strings.Contains(out, "interrupted") { // by a change: it is read again
			out, err = h.Own.Try(words(h, command)...)
		}
		switch {
		case some && err == nil:
			fmt.Fprintf(&b, "%s", pick(out, strings.Fields(fields)))
		default:
			for line := range strings.Lines(clean(h, out)) {
				fmt.Fprintf(&b, "\n  %s", strings.TrimRight(line, "\n"))
			}
		}
	}
	return b.String()
}

// pick takes fields of objects in JSON, by their paths: of lists those of every member, of a
// list of objects all.
func pick(text string, fields []string) string {
	var all any
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return " " + err.Error()
	}
	var b strings.Builder
	for _, f := range fields {
		v := dig(all, strings.Split(f, "."))
		if list, is := v.([]any); is && len(list) == 1 {
			v = list[0]
		}
		if v == nil {
			v = "-"
		}
		fmt.Fprintf(&b, " %s=%v", f[strings.LastIndex(f, ".")+1:], v)
	}
	return b.String()
}

func dig(v any, path []string) any {
	if len(path) == 0 {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		return dig(v[path[0]], path[1:])
	case []any:
		var all []any
		for _, x := range v {
			if x = dig(x, path); x != nil {
				all = append(all, x)
			}
		}
		if len(all) > 0 {
			return all
		}
	}
	return nil
}

// words cuts a command at blanks; single quotes hold together.
func words(h *host.Host, line string) (all []string) {
	for i, part := range strings.Split(expand(h, line), "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// keys are those of a row, the one in question last.
func (r *row) keys() []string { return append(slices.Sorted(maps.Keys(r.before)), r.key) }

// text is what the row came to, step by step.
func (r *row) text() string {
	var b strings.Builder
	for _, step := range steps {
		fmt.Fprintf(&b, "%s:%s\n", step, r.said[step])
	}
	return b.String()
}
