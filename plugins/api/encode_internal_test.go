package api

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// What is as it is wanted is written once.
func TestOneValueIsWrittenOnce(t *testing.T) {
	v := &models.Interface{Mtu: 1400}
	same := keyStatus(scheduler.Status{Key: "interface/a", Desired: v, Actual: v})
	if same.Actual != same.Desired || same.Actual.GetStructValue().Fields["mtu"].GetNumberValue() != 1400 {
		t.Errorf("%v", same)
	}
	equal := keyStatus(scheduler.Status{Key: "interface/a", Desired: v, Actual: proto.CloneOf(v)})
	if equal.Actual == equal.Desired || !proto.Equal(equal, same) {
		t.Errorf("%v is not %v", equal, same)
	}
	for _, other := range []any{nil, scheduler.Encoded("x"), map[string]int{"a": 1}} {
		for _, s := range []scheduler.Status{{Desired: v, Actual: other}, {Desired: other, Actual: v}, {Desired: other, Actual: other}} {
			out := keyStatus(s)
			if !proto.Equal(out.Desired, value(s.Desired)) || !proto.Equal(out.Actual, value(s.Actual)) {
				t.Errorf("%v: %v", s, out)
			}
		}
	}
}
