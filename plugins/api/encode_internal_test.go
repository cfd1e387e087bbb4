package api

import (
	"fmt"
	"math/rand/v2"
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

// Whatever a key was before, it is told as if nothing had been told of it; and what it still
// is, is not written again.
func TestLaterStatusIsWrittenAsTheFirst(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var values []any
	for i := range 3 {
		values = append(values, &models.Interface{Mtu: uint32(1400 + i)})
	}
	values = append(values, nil, scheduler.Encoded("x"), map[string]int{"a": 1}, (*models.Interface)(nil))
	any := func() any { return values[rnd.IntN(len(values))] }
	var told encodings
	encode := told.encoder(false)
	reused := 0
	for i := range 2000 {
		s := scheduler.Status{Key: "interface/a", Revision: uint64(i), Desired: any(), Actual: any(), Meta: any()}
		for range rnd.IntN(3) {
			s.Derived = append(s.Derived, scheduler.Status{Key: scheduler.Key(fmt.Sprintf("address/%d", rnd.IntN(3))), Desired: any(), Actual: any()})
		}
		before := told.last[form{s.Key, false}]
		got, want := encode(s), keyStatus(s)
		if !proto.Equal(got, want) {
			t.Fatalf("%v\nis told as\n%v, not\n%v", s, got, want)
		}
		if _, message := s.Desired.(*models.Interface); message && before.msg != nil && s.Desired == before.of.Desired && got.Desired != nil {
			if reused++; got.Desired != before.msg.Desired {
				t.Fatal("what it still is was written again")
			}
		}
	}
	if reused == 0 {
		t.Error("nothing stayed as it was")
	}
}
