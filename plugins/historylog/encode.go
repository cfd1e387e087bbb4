package historylog

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/plumb-net/plumb/plugins/jsontext"
	"github.com/plumb-net/plumb/scheduler"
)

// perStep and perChange are about what they take in bytes.
const (
	perStep   = 90
	perChange = 400
)

// appendTo adds the line to a text as JSON, as the tags of its fields say. A test holds it to be
// what encoding/json makes of them.
func (l line) appendTo(text []byte) []byte {
	o := encoder{jsontext.Object{Text: slices.Grow(text, 512+perStep*(len(l.Planned)+len(l.Done))+perChange*len(l.Changed))}}
	o.Open()
	o.Name("seq")
	o.Text = strconv.AppendUint(o.Text, l.Seq, 10)
	o.Time("time", l.Time)
	o.String("source", l.Source)
	o.String("note", l.Note)
	o.Time("written", l.Written)
	o.True("complete", l.Complete)
	jsontext.List(&o.Object, "asked", l.Asked, func(k scheduler.Key) { o.Quote(string(k)) })
	o.Int("asked_total", int64(l.AskedTotal))
	jsontext.List(&o.Object, "planned", l.Planned, o.step)
	jsontext.List(&o.Object, "done", l.Done, o.step)
	jsontext.List(&o.Object, "changed", l.Changed, o.changed)
	o.Time("settled", l.Settled)
	o.Int("dropped", int64(l.Dropped))
	o.Int("missed", int64(l.Missed))
	o.True("part", l.Part)
	if l.Deviation != nil {
		text, _ := json.Marshal(l.Deviation) // a number and a text
		o.Raw("deviation", text)
	}
	o.Close()
	return o.Text
}

type encoder struct{ jsontext.Object }

func (o *encoder) step(s step) {
	o.Open()
	o.Name("op")
	o.Text = strconv.AppendUint(o.Text, uint64(s.Op), 10)
	o.Name("key")
	o.Quote(string(s.Key))
	o.String("via", string(s.Via))
	o.Time("start", s.Start)
	o.Int("waited", int64(s.Waited))
	o.Int("took", int64(s.Took))
	o.String("error", s.Error)
	o.True("lapsed", s.Lapsed)
	o.Close()
}

func (o *encoder) changed(c changed) {
	o.Open()
	o.Name("key")
	o.Quote(string(c.Key))
	o.Name("time")
	o.Moment(c.Time)
	o.Name("before")
	o.moment(c.Before)
	o.Name("after")
	o.moment(c.After)
	o.Close()
}

func (o *encoder) moment(m moment) {
	o.Open()
	o.Uint("state", uint64(m.State))
	o.String("origin", m.Origin)
	o.Bytes("desired", m.Desired)
	o.Bytes("actual", m.Actual)
	o.Close()
}
