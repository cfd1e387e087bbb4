package container

// ReportOOM takes in what the kernel told of a process that it killed for want
// of memory. It may be called from any goroutine, also for containers that the
// tracker does not know; it never blocks.
func (t *Tracker) ReportOOM(OOMKill) {}
