package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

func keyStatus(s scheduler.Status) *apiv1.KeyStatus { return encoding{}.keyStatus(s) }

// encoding is a status and how it is written.
type encoding struct {
	of  scheduler.Status
	msg *apiv1.KeyStatus
}

// keyStatus writes a later status of the same key. Most changes leave the value as it is, and
// that takes longest to write.
func (e encoding) keyStatus(s scheduler.Status) *apiv1.KeyStatus {
	out := bareStatus(s)
	out.Desired, out.Metadata = e.value(s.Desired), value(s.Meta)
	if one(s.Desired, s.Actual) {
		out.Actual = out.Desired
	} else {
		out.Actual = e.value(s.Actual)
	}
	for i, d := range s.Derived {
		out.Derived = append(out.Derived, e.derived(i, d.Key).keyStatus(d))
	}
	return out
}

// derived is what was written of a derived key, if it has its place still.
func (e encoding) derived(i int, k scheduler.Key) encoding {
	if e.msg == nil || i >= len(e.of.Derived) || e.of.Derived[i].Key != k {
		return encoding{}
	}
	return encoding{e.of.Derived[i], e.msg.Derived[i]}
}

func (e encoding) value(v any) *structpb.Value {
	switch {
	case e.msg != nil && one(v, e.of.Desired):
		return e.msg.Desired
	case e.msg != nil && one(v, e.of.Actual):
		return e.msg.Actual
	}
	return value(v)
}

// withoutValues leaves out what the key holds.
func withoutValues(s scheduler.Status) *apiv1.KeyStatus {
	out := bareStatus(s)
	for _, d := range s.Derived {
		out.Derived = append(out.Derived, withoutValues(d))
	}
	return out
}

// encoder is how a request wants statuses. It is for one goroutine, see [sameTime].
func encoder(noValues bool) func(scheduler.Status) *apiv1.KeyStatus {
	encode := keyStatus
	if noValues {
		encode = withoutValues
	}
	var times sameTime
	return func(s scheduler.Status) *apiv1.KeyStatus {
		out := encode(s)
		times.share(out)
		return out
	}
}

// sameTime lets keys that changed at the same time share that, as there may be many.
type sameTime struct{ last *timestamppb.Timestamp }

func (t *sameTime) share(s *apiv1.KeyStatus) {
	if t.last != nil && s.Since != nil && t.last.Seconds == s.Since.Seconds && t.last.Nanos == s.Since.Nanos {
		s.Since = t.last
	}
	t.last = s.Since
}

func bareStatus(s scheduler.Status) *apiv1.KeyStatus {
	kind, name, _ := strings.Cut(string(s.Key), "/")
	if s.Kind != "" {
		kind = s.Kind
	}
	return &apiv1.KeyStatus{
		Key: string(s.Key), Kind: kind, Name: name,
		State: s.State.String(), Reason: s.Reason,
		Missing: missing(s.Missing), Fields: fieldErrors(s.Fields),
		Origin: s.Origin, Shadowed: s.Shadowed,
		Revision: s.Revision, Since: timestamp(s.Since),
		Attempts: uint32(s.Attempts), NextTry: timestamp(s.NextTry),
		Base: string(s.Base), Busy: s.Busy, Cause: s.Cause, Via: string(s.Via),
	}
}

func keyStatuses(ss []scheduler.Status, noValues bool) []*apiv1.KeyStatus {
	encode := encoder(noValues)
	out := make([]*apiv1.KeyStatus, len(ss))
	for i, s := range ss {
		out[i] = encode(s)
	}
	return out
}

func missing(ms []scheduler.Missing) []*apiv1.Missing {
	var out []*apiv1.Missing
	for _, m := range ms {
		out = append(out, &apiv1.Missing{Need: m.Need, Why: m.Why})
	}
	return out
}

func fieldErrors(fs []scheduler.FieldError) []*apiv1.FieldError {
	var out []*apiv1.FieldError
	for _, f := range fs {
		out = append(out, &apiv1.FieldError{Field: f.Field, Error: f.Error})
	}
	return out
}

// value makes JSON of what the scheduler keeps: messages of models as they are
// written, anything else as encoding/json has it. Nothing is left out silently:
// what cannot be written says so.
func value(v any) *structpb.Value {
	if v == nil {
		return nil
	}
	var text []byte
	var err error
	if b, ok := v.(scheduler.Encoded); ok { // of a kind that is not registered
		v = string(b)
	}
	if m, ok := v.(proto.Message); ok {
		if !m.ProtoReflect().IsValid() {
			return nil
		}
		text = models.Encode(m)
	} else if text, err = json.Marshal(v); err != nil {
		return structpb.NewStringValue(fmt.Sprintf("cannot be shown: %v", err))
	}
	if string(text) == "null" || string(text) == "{}" && !isMessage(v) {
		return nil
	}
	out := new(structpb.Value)
	if err := protojson.Unmarshal(text, out); err != nil {
		return structpb.NewStringValue(fmt.Sprintf("cannot be shown: %v", err))
	}
	return out
}

func isMessage(v any) bool { _, ok := v.(proto.Message); return ok }

// one reports whether two values are one message, which takes long to write: what was made as
// it is wanted is that.
func one(a, b any) bool {
	m, is := a.(proto.Message)
	n, too := b.(proto.Message)
	return is && too && m == n
}

func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func record(r scheduler.Record) *apiv1.Record {
	out := &apiv1.Record{
		Seq: r.Seq, Time: timestamp(r.Time), Source: r.Source, Note: r.Note,
		Settled: timestamp(r.Settled), Dropped: uint32(r.Dropped),
	}
	out.Complete, out.Written = r.Complete, timestamp(r.Written)
	out.Earlier, out.Missed, out.Changed = r.Earlier, uint32(r.Missed), keyChanges(r.Changed)
	for _, k := range r.Asked {
		out.Asked = append(out.Asked, string(k))
	}
	if r.Deviation != nil {
		out.Deviation = r.Deviation.String()
	}
	if r.AskedTotal > len(r.Asked) {
		out.AskedTotal = uint32(r.AskedTotal)
	}
	for _, p := range r.Planned {
		out.Planned = append(out.Planned, &apiv1.PlannedStep{Op: p.Op.String(), Key: string(p.Key)})
	}
	out.Done = doneSteps(r.Done)
	return out
}

func doneSteps(steps []scheduler.DoneStep) []*apiv1.DoneStep {
	var out []*apiv1.DoneStep
	for _, d := range steps {
		s := &apiv1.DoneStep{
			Op: d.Op.String(), Key: string(d.Key), Via: string(d.Via),
			Start: timestamp(d.Start), Took: durationpb.New(d.Took), Error: d.Error, Lapsed: d.Lapsed,
		}
		if d.Waited > 0 {
			s.Waited = durationpb.New(d.Waited)
		}
		out = append(out, s)
	}
	return out
}

func keyChanges(changes []scheduler.KeyChange) []*apiv1.KeyChange {
	var out []*apiv1.KeyChange
	for _, c := range changes {
		out = append(out, &apiv1.KeyChange{Key: string(c.Key), Before: moment(c.Before), After: moment(c.After), Seq: c.Seq, Time: timestamp(c.Time)})
	}
	return out
}

func moment(m scheduler.Moment) *apiv1.Moment {
	if m.State == scheduler.Absent && m.Origin == "" && m.Desired == nil && m.Actual == nil {
		return nil
	}
	out := &apiv1.Moment{Origin: m.Origin, Desired: value(m.Desired), Actual: value(m.Actual)}
	if m.State != scheduler.Absent {
		out.State = m.State.String()
	}
	return out
}

func deed(d *scheduler.Deed) *apiv1.Deed {
	if d == nil {
		return nil
	}
	out := &apiv1.Deed{Seq: d.Seq, Source: d.Source, Note: d.Note, Time: timestamp(d.Time), Via: string(d.Via), Error: d.Error}
	if d.Op != 0 {
		out.Op = d.Op.String()
	}
	return out
}

func plan(p scheduler.Plan) *apiv1.PlanResponse {
	out := new(apiv1.PlanResponse)
	base, err := p.Base.Save()
	if out.Base = base.Sum; err != nil {
		out.Base, out.Unsaved = p.Base.String(), err.Error()
	}
	for _, r := range base.Reads {
		out.Reads = append(out.Reads, &apiv1.Read{Key: string(r.Key), Digest: r.Digest})
	}
	out.Held = p.Held
	for _, f := range p.Effects {
		out.Effects = append(out.Effects, &apiv1.Effect{Key: string(f.Key), Was: f.Was.String(), State: f.State.String(),
			Reason: f.Reason, Missing: missing(f.Missing), Breaks: f.Breaks()})
	}
	out.Steps, _ = steps(p)
	for _, s := range p.Pending {
		pend := &apiv1.Pending{Key: string(s.Key), Missing: missing(s.Missing)}
		if s.State != scheduler.Pending {
			pend.State, pend.Reason = s.State.String(), s.Reason
		}
		out.Pending = append(out.Pending, pend)
	}
	return out
}

func health(hs []models.Health) []*apiv1.Health {
	var out []*apiv1.Health
	for _, h := range hs {
		out = append(out, &apiv1.Health{Name: h.Name, State: h.State, Reason: h.Reason, Since: timestamp(h.Since), Details: h.Details})
	}
	return out
}
