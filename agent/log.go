package agent

import "github.com/plumb-net/plumb/plugins/loglevel"

// logParts are the parts of the agent that have a logger of their own.
var logParts = []string{
	"announcer", "api", "cni", "confirm", "containers", "etcd", "events", "file", "fleet", "history", "kubernetes", "oom", "remote", "scheduler", "systemd", "traces",
}

// Levels are how much is logged, as it is configured.
func (c Config) Levels() *loglevel.Levels {
	l := loglevel.New(logParts...)
	_ = l.SetAll(c.LogLevel) // validated
	return l
}
