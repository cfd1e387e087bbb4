package resources

import (
	"testing"
	"time"
)

// TestDistribution: each value counts for as long as it held.
func TestDistribution(t *testing.T) {
	points := func(values ...float32) (all []point) {
		for _, v := range values {
			all = append(all, point{v, v, time.Second})
		}
		return all
	}
	hundred := make([]float32, 100)
	for i := range hundred {
		hundred[i] = float32(100 - i)
	}
	for _, test := range []struct {
		what string
		all  []point
		want Distribution
	}{
		{"nothing", nil, Distribution{}},
		{"one value", points(7), Distribution{7, 7, 7, 7, 7}},
		{"1 to 100", points(hundred...), Distribution{50, 100, 50, 90, 95}},
		{"a short peak", append(points(1000), point{10, 10, 99 * time.Second}), Distribution{19, 1000, 10, 10, 10}},
		{"means and peaks", []point{{10, 400, time.Minute}, {30, 40, time.Minute}}, Distribution{20, 400, 10, 30, 30}},
	} {
		if got := distribution(test.all); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.what, got, test.want)
		}
	}
}

// TestMinute: a minute's mean is that of all of its time, and its peak the highest.
func TestMinute(t *testing.T) {
	var m minute
	m.add(100, 1000, 10*time.Second)
	m.add(400, 1000, 20*time.Second)
	if s := summaryOf([]minute{m}, 0); s.CPU.Mean != 300 || s.CPU.Max != 400 || s.Memory.Mean != 1000 {
		t.Errorf("%+v", s)
	}
	if s := summaryOf([]minute{m}, 1); s != (Summary{}) {
		t.Errorf("it was before: %+v", s)
	}
}
