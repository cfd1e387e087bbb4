//go:build !race

package scheduler_test

// raceEnabled: tests that play many histories play fewer.
const raceEnabled = false
