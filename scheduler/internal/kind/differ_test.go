package kind

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/plumb-net/plumb/scheduler/kv"
)

// message sets a field of its own when it is encoded, as those of protobuf do.
type message struct {
	text string
	own  atomic.Pointer[string]
}

// TestDesiredDifferBesideAnEncoder: values are compared while a reader of the history
// encodes them (found by the race detector in a run with an agent).
func TestDesiredDifferBesideAnEncoder(t *testing.T) {
	k := &Kind{Compare: func(kv.Key, any, any) kv.Verdict { return kv.Verdict{Change: kv.Same} }, Identical: func(a, b any) bool { return a == b },
		Encode: func(v any) ([]byte, error) {
			m := v.(*message)
			m.own.Store(&m.text)
			return []byte(m.text), nil
		}}
	var beside sync.WaitGroup
	for i := range 200 {
		a, b, c := &message{text: fmt.Sprint(i)}, &message{text: fmt.Sprint(i)}, &message{text: "else"}
		beside.Go(func() { _, _ = EncodeValue(k, a) })
		if DesiredDiffer(k, "a/1", a, b) || !DesiredDiffer(k, "a/1", a, c) {
			t.Fatal("compared by something else than what they say")
		}
		beside.Wait()
	}
}
