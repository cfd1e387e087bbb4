package attributes

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestDrift has somebody else change each attribute that the kernel shows of an object, and records whether
// the change is repaired. An attribute without a line fails, so a kernel that shows more, or a
// new type of links, needs a line for each of its attributes.
func TestDrift(t *testing.T) {
	h := host.New(t, host.Options{NoEngine: true, Fast: true})
	h.Start()
	var all []*thing
	datadriven.Walk(t, "testdata/drift", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			all = append(all, thingOf(t, d))
			return d.Expected
		})
	})
	intent := map[string]json.RawMessage{}
	for _, o := range all {
		maps.Copy(intent, o.intent)
	}
	text, err := json.Marshal(map[string]any{"intent": intent})
	if err != nil {
		t.Fatal(err)
	}
	if r := h.CtlInput(string(text), "apply", "-f", "-"); r.Code != 0 {
		t.Fatalf("apply: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	h.AwaitSettled()
	all = slices.DeleteFunc(all, func(o *thing) bool { return o.lacks(h) })
	drift(h, all)
	datadriven.Walk(t, "testdata/drift", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			for _, o := range all {
				if o.name == d.CmdArgs[0].Key {
					return strings.Join(o.outcomes, "\n") + "\n"
				}
			}
			return d.Expected
		})
	})
	for _, o := range all {
		for _, f := range o.faults {
			t.Errorf("%s: %s", o.name, f)
		}
	}
}

// thing is an object of which each attribute is changed by somebody else.
type thing struct {
	name     string
	intent   map[string]json.RawMessage
	list     string            // the command that shows it, in JSON
	ignored  map[string]string // attributes that nobody changes, with the reason
	changes  []alteration
	outcomes []string
	faults   []string

	before   map[string]string // the attributes
	recorded string            // the outcomes
}

// Outcomes of changes. An attribute that stays is not set in the value, or has no field. A reported one stays
// too, and a key of the object is not configured.
const repaired, stays, reported = "repaired", "stays", "reported"

// alteration is a command that changes an attribute.
type alteration struct{ attribute, command string }

// thingOf reads an object of testdata/drift:
//
//	object NAME
//	key KEY VALUE               what is wanted; may be repeated
//	list COMMAND                shows the object in JSON
//	change ATTRIBUTE: COMMAND   somebody changes the attribute
//	ignore ATTRIBUTE…: REASON   nobody changes them; patterns as of path.Match
//
// The names of nested attributes are joined by dots. What came of each change follows.
func thingOf(t testing.TB, d *datadriven.TestData) *thing {
	t.Helper()
	o := &thing{name: d.CmdArgs[0].Key, intent: map[string]json.RawMessage{}, ignored: map[string]string{}}
	for line := range strings.Lines(d.Input) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		before, after, _ := strings.Cut(rest, ": ")
		switch verb {
		case "key":
			key, value, _ := strings.Cut(rest, " ")
			o.intent[key] = json.RawMessage(value)
		case "list":
			o.list = rest
		case "change":
			o.changes = append(o.changes, alteration{before, after})
		case "ignore":
			for _, a := range strings.Fields(before) {
				o.ignored[a] = after
			}
		default:
			d.Fatalf(t, "unknown line %q", line)
		}
	}
	o.recorded = d.Expected
	return o
}

// lacks reports whether this kernel does not have the object. Kernels of Debian have all.
func (o *thing) lacks(h *host.Host) bool {
	for key := range o.intent {
		if why := h.Key(key).Reason; notInThisKernel(why) {
			h.T().Logf("%s: %s", o.name, why)
			return true
		}
	}
	return false
}

func (o *thing) isConfigured(h *host.Host) bool {
	for key := range o.intent {
		if k := h.Key(key); k.State != "configured" {
			h.T().Log(k.Text())
			return false
		}
	}
	return true
}

// attributes are what the kernel shows of the object, by name. There are none while it is gone.
func (o *thing) attributes(h *host.Host) map[string]string {
	found := map[string]string{}
	out, err := h.Own.Try(words(h, o.list)...) // nft prints nothing while the table is replaced
	if err != nil || strings.TrimSpace(out) == "" {
		return found
	}
	var shown any
	if err := json.Unmarshal([]byte(out), &shown); err != nil {
		h.T().Fatalf("%s: %s: %v\n%s", o.name, o.list, err, out)
	}
	flatten("", shown, found)
	return found
}

// flatten gives each attribute, and each flag of a link, its full name. A list of one object is that
// object; ip adds empty ones. Of several objects the numbers are part of the name.
func flatten(name string, v any, into map[string]string) {
	if list, is := v.([]any); is {
		list = slices.DeleteFunc(list, func(x any) bool { o, is := x.(map[string]any); return is && len(o) == 0 })
		if len(list) == 1 {
			if one, is := list[0].(map[string]any); is {
				v = one
			}
		}
	}
	if list, is := v.([]any); is && name == "flags" {
		for _, flag := range list {
			into[fmt.Sprint("flags.", flag)] = "set"
		}
		return
	}
	if list, is := v.([]any); is && (name == "" || name == "nftables") {
		for i, one := range list {
			flatten(strings.TrimPrefix(fmt.Sprintf("%s.%d", name, i), "."), one, into)
		}
		return
	}
	nested, is := v.(map[string]any)
	if !is || len(nested) == 0 {
		text, _ := json.Marshal(v)
		into[name] = string(text)
		return
	}
	for k, v := range nested {
		flatten(strings.TrimPrefix(name+"."+k, "."), v, into)
	}
}

// drift plays all changes, and records what the agent repairs.
func drift(h *host.Host, all []*thing) {
	h.MustCtl("freeze", "-m", "somebody changes objects") // so that each change can be seen
	for _, o := range all {
		if o.before = o.attributes(h); len(o.before) == 0 {
			h.T().Fatalf("%s: %s shows no object", o.name, o.list)
		}
		o.checkLines()
		for _, c := range o.changes {
			o.change(h, c)
		}
	}
	h.MustCtl("unfreeze")
	h.AwaitSettled()
	h.Ctl("resync") // its exit code says what the outcomes tell
	h.AwaitSettled()
	for _, o := range all {
		now := o.attributes(h)
		for _, c := range o.changes {
			outcome := c.attribute + ": "
			for n := 0; n < 100 && now[c.attribute] != o.before[c.attribute] && strings.Contains(o.recorded, outcome+repaired+"\n"); n++ {
				time.Sleep(100 * time.Millisecond)
				now = o.attributes(h)
			}
			switch {
			case now[c.attribute] == o.before[c.attribute]:
				outcome += repaired
			case o.isConfigured(h):
				outcome += stays
			default:
				outcome += reported
			}
			o.outcomes = append(o.outcomes, outcome)
		}
	}
}

// change changes an attribute.
func (o *thing) change(h *host.Host, c alteration) {
	if out, err := h.Own.Try(words(h, c.command)...); err != nil {
		o.faults = append(o.faults, fmt.Sprintf("%s: %v\n%s", c.command, err, out))
		return
	}
	for range 100 {
		if o.attributes(h)[c.attribute] != o.before[c.attribute] {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	o.faults = append(o.faults, fmt.Sprintf("%s: does not change %s, which is %s", c.command, c.attribute, o.before[c.attribute]))
}

// checkLines: each attribute that is shown has a line. Kernels and tools of other versions show others.
func (o *thing) checkLines() {
	has := func(attribute string) bool {
		for pattern := range o.ignored {
			if is, _ := path.Match(pattern, attribute); is {
				return true
			}
		}
		return slices.ContainsFunc(o.changes, func(c alteration) bool { return c.attribute == attribute })
	}
	for _, a := range slices.Sorted(maps.Keys(o.before)) {
		if !has(a) {
			o.faults = append(o.faults, fmt.Sprintf("%s, which is %s, has no line: give it a line change, or ignore with the reason", a, o.before[a]))
		}
	}
}
