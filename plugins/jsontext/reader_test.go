package jsontext

import (
	"encoding/json"
	"testing"
)

type sample struct {
	Name  string          `json:"name"`
	Count int64           `json:"count"`
	Size  uint64          `json:"size"`
	Value json.RawMessage `json:"value"`
}

// read reads a sample; ok is false if it is to be read in another way.
func read(text []byte) (s sample, ok bool) {
	r := NewReader(text)
	r.Open()
	for name, more := r.Field(); more; name, more = r.Field() {
		switch string(name) {
		case "name":
			s.Name = r.String()
		case "count":
			s.Count = r.Int()
		case "size":
			s.Size = r.Uint()
		case "value":
			s.Value = r.Raw()
		default:
			return s, false // for encoding/json it may be one of the others, written in another case
		}
	}
	return s, r.Done()
}

func TestReader(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: true,
		`{"name":"web","count":-3,"size":18446744073709551615}`: true,
		`{"value":{"a":[1,"x",{"b":true}],"c":false}}`:          true,
		`{"value":[],"Name":"web"}`:                             false,
		`{"name":"a\"b"}`:                                       false, // it has to be decoded
		`{"name":"ä"}`:                                          false,
		`{ "name":"web"}`:                                       false,
		`{"name":"web",}`:                                       false,
		`{,"name":"web"}`:                                       false,
		`{"name":"web""count":1}`:                               false,
		`{"name":"web","value":[1,]}`:                           false,
		`{"value":{"a":1,}}`:                                    false,
		`{"count":01}`:                                          false,
		`{"count":1.5}`:                                         false,
		`{"size":-1}`:                                           false,
		`{"count":"1"}`:                                         false,
		`{"name":"web"}}`:                                       false,
		`{"name":"web"`:                                         false,
		`{"name":`:                                              false,
		`{"name":null}`:                                         false,
		``:                                                      false,
		`[]`:                                                    false,
	} {
		got, ok := read([]byte(text))
		if ok != want {
			t.Errorf("%s: read %v", text, ok)
		}
		var plain sample
		if err := json.Unmarshal([]byte(text), &plain); ok && (err != nil || !same(got, plain)) {
			t.Errorf("%s is %+v, for encoding/json %+v, %v", text, got, plain, err)
		}
	}
}

func same(a, b sample) bool {
	return a.Name == b.Name && a.Count == b.Count && a.Size == b.Size && string(a.Value) == string(b.Value)
}

// FuzzReader: what is read is read by encoding/json alike.
func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"name":"web","count":-3,"size":7,"value":{"a":[1,"x",{"b":true}],"c":false}}`))
	f.Add([]byte(`{"value":[[],{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := read(text)
		if !ok {
			return
		}
		var plain sample
		if err := json.Unmarshal(text, &plain); err != nil || !same(got, plain) {
			t.Errorf("%q is %+v, for encoding/json %+v, %v", text, got, plain, err)
		}
	})
}
