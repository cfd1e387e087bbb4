package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// TestPhases: the time between the write and the end of each operation is told once, and
// all of it.
func TestPhases(t *testing.T) {
	t0 := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	at := func(ms int) *timestamppb.Timestamp {
		return timestamppb.New(t0.Add(time.Duration(ms) * time.Millisecond))
	}
	ms := func(n int) *durationpb.Duration { return durationpb.New(time.Duration(n) * time.Millisecond) }
	var out strings.Builder
	for _, p := range phasesOf([]*apiv1.Record{
		{Seq: 7, Written: at(0), Time: at(4), Done: []*apiv1.DoneStep{
			{Op: "create", Key: "interface/a", Start: at(6), Waited: ms(1), Took: ms(20)},
			{Op: "look", Key: "interface/a", Start: at(7), Took: ms(500)},
			{Op: "create", Key: "route/r", Start: at(30), Waited: ms(3), Took: ms(2)},
		}},
		{Seq: 8, Time: at(100), Done: []*apiv1.DoneStep{ // before the clock was set back
			{Op: "update", Key: "interface/b", Start: at(90), Took: ms(5)},
		}},
	}) {
		fmt.Fprintf(&out, "%s %s %d total %s median %s p95 %s max %s by %s of %d\n", p.Phase, p.Kind, p.Count, p.Total, p.Median, p.P95, p.Max, p.Slowest.Key, p.Slowest.Seq)
	}
	want := `operation interface 2 total 25ms median 20ms p95 20ms max 20ms by interface/a of 7
needs route 1 total 23ms median 23ms p95 23ms max 23ms by route/r of 7
store  1 total 4ms median 4ms p95 4ms max 4ms by  of 7
queue route 1 total 3ms median 3ms p95 3ms max 3ms by route/r of 7
operation route 1 total 2ms median 2ms p95 2ms max 2ms by route/r of 7
needs interface 2 total 1ms median 1ms p95 1ms max 1ms by interface/a of 7
queue interface 2 total 1ms median 1ms p95 1ms max 1ms by interface/a of 7
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}
