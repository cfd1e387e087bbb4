// Package jsontext writes and reads JSON without reflection, where there is a mass of it: lines
// of the ledger and of the history. What it writes encoding/json reads, and the other way round.
package jsontext

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"
)

// Object is a text to which objects are written, one within the other. Fields are written
// in the order of the calls; those with a zero value are left out, but by Name, which is
// for all that shall be there in any case.
type Object struct{ Text []byte }

// Open begins an object.
func (o *Object) Open() { o.Text = append(o.Text, '{') }

// Close ends the object that was opened last.
func (o *Object) Close() { o.Text = append(o.Text, '}') }

// Name begins a field; its value is to follow.
func (o *Object) Name(name string) {
	o.next()
	o.Text = append(o.Text, '"')
	o.Text = append(o.Text, name...)
	o.Text = append(o.Text, '"', ':')
}

// next begins a field or an element.
func (o *Object) next() {
	if last := o.Text[len(o.Text)-1]; last != '{' && last != '[' {
		o.Text = append(o.Text, ',')
	}
}

// Uint writes the field with a number.
func (o *Object) Uint(name string, n uint64) {
	if n != 0 {
		o.Name(name)
		o.Text = strconv.AppendUint(o.Text, n, 10)
	}
}

// Int writes the field with a number that may be negative.
func (o *Object) Int(name string, n int64) {
	if n != 0 {
		o.Name(name)
		o.Text = strconv.AppendInt(o.Text, n, 10)
	}
}

// True writes the field if it is set.
func (o *Object) True(name string, set bool) {
	if set {
		o.Name(name)
		o.Text = append(o.Text, "true"...)
	}
}

// String writes the field with a text.
func (o *Object) String(name, text string) {
	if text != "" {
		o.Name(name)
		o.Quote(text)
	}
}

// Bytes writes the field in base64, as encoding/json does.
func (o *Object) Bytes(name string, value []byte) {
	if len(value) > 0 {
		o.Name(name)
		o.Text = append(o.Text, '"')
		o.Text = base64.StdEncoding.AppendEncode(o.Text, value)
		o.Text = append(o.Text, '"')
	}
}

// Raw writes the field with what is JSON already.
func (o *Object) Raw(name string, value json.RawMessage) {
	if len(value) > 0 {
		o.Name(name)
		o.Text = append(o.Text, value...)
	}
}

// Time writes the field with a time.
func (o *Object) Time(name string, t time.Time) {
	if !t.IsZero() {
		o.Name(name)
		o.Moment(t)
	}
}

// Moment writes a time, also the zero one.
func (o *Object) Moment(t time.Time) {
	o.Text = append(o.Text, '"')
	o.Text = t.AppendFormat(o.Text, time.RFC3339Nano)
	o.Text = append(o.Text, '"')
}

// Quote writes a text; what needs more than quotes is rare.
func (o *Object) Quote(text string) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			o.Text = append(o.Text, quoted(text)...)
			return
		}
	}
	o.Text = append(o.Text, '"')
	o.Text = append(o.Text, text...)
	o.Text = append(o.Text, '"')
}

func quoted(text string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a text always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// List writes the field with what each element writes.
func List[E any](o *Object, name string, all []E, each func(E)) {
	if len(all) == 0 {
		return
	}
	o.Name(name)
	o.Text = append(o.Text, '[')
	for _, e := range all {
		o.next()
		each(e)
	}
	o.Text = append(o.Text, ']')
}
