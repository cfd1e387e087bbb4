package kubernetes

import (
	"os"
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

func TestMain(m *testing.M) { os.Exit(host.Main(m)) }
