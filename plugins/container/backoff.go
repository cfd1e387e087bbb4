package container

import "time"

// backoff is how long to wait after the n-th failure in a row, n from 1: it
// doubles from first up to most. spread, from [0, 1), adds up to a quarter, so
// that many do not come back at once.
func backoff(n int, first, most time.Duration, spread float64) time.Duration {
	d := most
	if shift := n - 1; shift < 20 && first<<shift < most {
		d = first << shift
	}
	return d + time.Duration(spread*float64(d)/4)
}
