package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// fuzzSeeds are values of all shapes; the fuzzer builds on them.
var fuzzSeeds = []string{
	`{}`, `null`, `[]`, `{"dummy":{}}`, `{"veth":{"peer":"b"},"addresses":["10.0.0.1/24","claim:x"]}`,
	`{"namespace":{"microservice":"web"},"hostName":"eth0","enabled":false,"mtu":"1500","bridge":{"ageing_time":0}}`,
	`{"vxlan":{"vni":5,"local":"10.0.0.1","group":"239.0.0.1","parent":"b"},"macAddress":"02:00:00:00:00:01"}`,
	`{"interface":"a","destination":"default","gateway":"fd00::1","metric":1e2}`,
	`{"destination":"10.0.0.0/8","nexthops":[{"interface":"a","weight":1.0},{"interface":"b","gateway":"10.0.0.1"}]}`,
	`{"labels":{"a":"b","a":"c"},"netns":"18446744073709551615","pid":-0,"exit_code":-1}`,
	`{"a":"\ud83d\ude00\n","b":[1,2.5e-3,true,false,null]}`, `{"mtu":1,"mtu":2,"veth":null,"":{"":""}}`,
	`{"labels":{"":null},"exit_code":2147483648,"netns":1e19}`,
	`{"netns":1e19,"pid":4.2e1,"exit_code":-1.5e1,"labels":{"b":"\u001f\u007f\u2028<&>\"\\\/\b\f","a":""}}`,
}

// FuzzDecode: no text makes Decode panic; whatever it refuses, it refuses with
// its own error; whatever it accepts comes back from Encode unchanged, and is to the
// protobuf library what it is to us.
func FuzzDecode(f *testing.F) {
	for pick := range kinds {
		for _, s := range fuzzSeeds {
			f.Add(uint8(pick), s)
		}
	}
	f.Fuzz(func(t *testing.T, pick uint8, text string) {
		kind := kinds[int(pick)%len(kinds)]
		msg, err := DecodeKind(kind.Name, []byte(text))
		if err != nil {
			var bad *InvalidError
			if !errors.As(err, &bad) || len(bad.Fields) == 0 || strings.Contains(err.Error(), "proto:") {
				t.Fatalf("%s: %v", text, err)
			}
			return
		}
		theirs := kind.New()
		if err := protojson.Unmarshal([]byte(text), theirs); err != nil || !proto.Equal(msg, theirs) {
			t.Fatalf("%s: %v, but %v, %v to the protobuf decoder", text, msg, theirs, err)
		}
		if loose, err := (protojson.MarshalOptions{UseProtoNames: true}).Marshal(msg); err != nil || compact(t, loose) != string(Encode(msg)) {
			t.Fatalf("%s is written as %s, by the protobuf encoder as %s, %v", text, Encode(msg), loose, err)
		}
		again, err := DecodeKind(kind.Name, Encode(msg))
		if err != nil || !proto.Equal(msg, again) {
			t.Fatalf("%s became %s, which is %v, %v", text, Encode(msg), again, err)
		}
		if !kind.Writable {
			return
		}
		key := kind.Prefix + "x"
		if err := Validate(key, msg); err == nil {
			if _, err := Decode(key, Encode(msg)); err != nil {
				t.Fatalf("%s is valid, but: %v", text, err)
			}
		}
	})
}

func compact(t *testing.T, loose []byte) string {
	var out bytes.Buffer
	if err := json.Compact(&out, loose); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

// FuzzJSON holds the parser against the standard library's.
func FuzzJSON(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := parseJSON(text, nil)
		valid := json.Valid([]byte(text))
		if err == nil && !valid {
			t.Fatalf("accepted, but no JSON: %q", text)
		}
		strict := utf8.ValidString(text) && !surrogate.MatchString(text) && strings.Count(text, "[")+strings.Count(text, "{") < maxDepth
		if err != nil && valid && strict {
			t.Fatalf("JSON, but refused: %q: %v", text, err)
		}
		// What the protobuf decoder takes and we do not must be a choice of ours.
		if msg := new(Container); valid && strict && protojson.Unmarshal([]byte(text), msg) == nil {
			if _, err := DecodeKind(KindContainer, []byte(text)); err != nil && !strings.Contains(err.Error(), "whole number") {
				t.Fatalf("the protobuf decoder takes %q: %v", text, err)
			}
		}
	})
}
