package scheduler

// SetWindow makes the window small, so that tests get to see it; 0 is as ever.
func SetWindow(n int) {
	if window = n; n == 0 {
		window = 4096
	}
}
