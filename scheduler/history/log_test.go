package history_test

import (
	"testing"
	"time"

	"github.com/plumb-net/plumb/scheduler/history"
)

// What an earlier run left behind counts against the bound with its values.
func TestValuesOfAnEarlierRunTakeRoom(t *testing.T) {
	h := history.New(100, 10_000, time.Now(), func(int8) string { return "" })
	for i := range 20 {
		h.Add(&history.Record{Seq: uint64(i + 1), Changed: []history.KeyChange{{
			Key: "a/1", After: history.Moment{Desired: history.Encoded(make([]byte, 1000))},
		}}})
	}
	if got := len(h.Query(history.Query{})); got < 5 || got > 9 {
		t.Errorf("%d records of about 1,300 bytes are kept in 10,000", got)
	}
}
