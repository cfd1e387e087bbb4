package cni

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// The long forms are what `make soak` runs.
var (
	sandboxes = flag.Int("sandboxes", 20, "how many sandboxes TestParallel runs at once")
	kills     = flag.Int("kills", 8, "how many rounds TestKills plays")
	down      = flag.Duration("down", 2*time.Second, "how long TestAgentDown leaves the agent down")
)

func TestMain(m *testing.M) { os.Exit(host.Main(m)) }
