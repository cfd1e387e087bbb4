package main

import (
	"time"

	"github.com/plumb-net/plumb/plugins/progress"
)

// downloading shows on the terminal how much of a long answer has come, until stop is
// called.
func (c *cli) downloading() (stop func()) {
	if c.live == nil {
		return func() {}
	}
	agent := c.agent()
	line := c.live.Start(func(elapsed time.Duration) []string {
		return []string{received(agent.Received()), progress.Time(elapsed)}
	})
	return line.Stop
}

// received says how much of an answer has come.
func received(bytes int64) string {
	if bytes == 0 {
		return "waiting for the agent"
	}
	return bytesText(uint64(bytes)) + " received"
}
