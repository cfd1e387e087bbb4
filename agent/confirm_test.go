package agent

import (
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/confirm"
)

// TestUnconfirmed: a change that has to be confirmed is told with its deadline.
func TestUnconfirmed(t *testing.T) {
	a := &agent{confirms: confirm.Open(t.TempDir(), confirm.Options{})}
	if _, waits := a.unconfirmed(); waits {
		t.Error("there is no change, and one waits")
	}
	until := time.Now().Add(time.Hour)
	if _, err := a.confirms.Begin(confirm.Pending{Name: "one", Deadline: until}); err != nil {
		t.Fatal(err)
	}
	if deadline, waits := a.unconfirmed(); !waits || !deadline.Equal(until) {
		t.Errorf("until %v, %v; want %v", deadline, waits, until)
	}
}
