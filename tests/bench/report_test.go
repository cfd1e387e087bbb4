package bench

import (
	"slices"
	"testing"
	"time"
)

func quantile(list []time.Duration, q int) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[min(len(list)-1, len(list)*q/100)]
}

func median(list []time.Duration) time.Duration { return quantile(list, 50) }

// ratio compares the best rounds: what else runs on the machine only adds.
func ratio(ours, floor []time.Duration) float64 {
	return float64(slices.Min(ours)) / float64(slices.Min(floor))
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// verdict prints a figure beside its bound. A missed bound is told, not
// failed: machines are shared, and only the ratio of one run means something.
func verdict(b *testing.B, what string, figure, bound float64, unit string) {
	b.Helper()
	word := "holds"
	if figure > bound {
		word = "MISSED"
	}
	b.Logf("%-58s %8.2f %-7s bound %.2f: %s", what, figure, unit, bound, word)
}
