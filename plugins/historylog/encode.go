package historylog

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// A history is much of what an agent writes in a mass of changes, so its lines are not made by
// reflection. A test holds them to be what json.Marshal makes of the type.

// perStep and perChange are about what they take in bytes.
const (
	perStep   = 90
	perChange = 400
)

// encode is the line as JSON.
func (l line) encode() []byte {
	o := object{make([]byte, 0, 512+perStep*(len(l.Planned)+len(l.Done))+perChange*len(l.Changed))}
	o.open()
	o.number("seq", l.Seq)
	o.time("time", l.Time)
	o.text("source", l.Source)
	o.text("note", l.Note)
	o.time("written", l.Written)
	o.flag("complete", l.Complete)
	list(&o, "asked", l.Asked, func(k scheduler.Key) { o.quote(string(k)) })
	o.count("asked_total", l.AskedTotal)
	list(&o, "planned", l.Planned, o.step)
	list(&o, "done", l.Done, o.step)
	list(&o, "changed", l.Changed, o.changed)
	o.time("settled", l.Settled)
	o.count("dropped", l.Dropped)
	o.count("missed", l.Missed)
	o.flag("part", l.Part)
	if l.Deviation != nil {
		o.name("deviation")
		text, _ := json.Marshal(l.Deviation) // a number and a text
		o.b = append(o.b, text...)
	}
	o.close()
	return o.b
}

func (o *object) step(s step) {
	o.open()
	o.number("op", uint64(s.Op))
	o.name("key")
	o.quote(string(s.Key))
	o.text("via", string(s.Via))
	o.time("start", s.Start)
	o.count("waited", int(s.Waited))
	o.count("took", int(s.Took))
	o.text("error", s.Error)
	o.flag("lapsed", s.Lapsed)
	o.close()
}

func (o *object) changed(c changed) {
	o.open()
	o.name("key")
	o.quote(string(c.Key))
	o.name("time")
	o.moment(c.Time)
	o.name("before")
	o.standing(c.Before)
	o.name("after")
	o.standing(c.After)
	o.close()
}

func (o *object) standing(m moment) {
	o.open()
	o.count("state", int(m.State))
	o.text("origin", m.Origin)
	o.bytes("desired", m.Desired)
	o.bytes("actual", m.Actual)
	o.close()
}

// object writes JSON objects, one within the other. Fields that have a zero value are left
// out, as far as nothing else is said.
type object struct{ b []byte }

func (o *object) open()  { o.b = append(o.b, '{') }
func (o *object) close() { o.b = append(o.b, '}') }

// next begins a field or an element.
func (o *object) next() {
	if last := o.b[len(o.b)-1]; last != '{' && last != '[' {
		o.b = append(o.b, ',')
	}
}

func (o *object) name(name string) {
	o.next()
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

// number writes a number, also 0.
func (o *object) number(name string, n uint64) {
	o.name(name)
	o.b = strconv.AppendUint(o.b, n, 10)
}

func (o *object) count(name string, n int) {
	if n != 0 {
		o.name(name)
		o.b = strconv.AppendInt(o.b, int64(n), 10)
	}
}

func (o *object) flag(name string, set bool) {
	if set {
		o.name(name)
		o.b = append(o.b, "true"...)
	}
}

func (o *object) text(name, text string) {
	if text != "" {
		o.name(name)
		o.quote(text)
	}
}

func (o *object) bytes(name string, value []byte) {
	if len(value) > 0 {
		o.name(name)
		o.b = append(o.b, '"')
		o.b = base64.StdEncoding.AppendEncode(o.b, value)
		o.b = append(o.b, '"')
	}
}

func (o *object) time(name string, t time.Time) {
	if !t.IsZero() {
		o.name(name)
		o.moment(t)
	}
}

func (o *object) moment(t time.Time) {
	o.b = append(o.b, '"')
	o.b = t.AppendFormat(o.b, time.RFC3339Nano)
	o.b = append(o.b, '"')
}

// quote writes a text; what needs more than quotes is rare.
func (o *object) quote(text string) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(text)
			o.b = append(o.b, quoted...)
			return
		}
	}
	o.b = append(o.b, '"')
	o.b = append(o.b, text...)
	o.b = append(o.b, '"')
}

func list[E any](o *object, name string, all []E, each func(E)) {
	if len(all) == 0 {
		return
	}
	o.name(name)
	o.b = append(o.b, '[')
	for _, e := range all {
		o.next()
		each(e)
	}
	o.b = append(o.b, ']')
}
