package host

import (
	"sync"
	"testing"

	"github.com/plumb-net/plumb/plugins/docker/dockertest"
)

// Engine is a Docker Engine of the tests.
type Engine struct{ *dockertest.Engine }

var common struct {
	once   sync.Once
	engine *dockertest.Engine
}

// SharedEngine is the engine that all tests of the binary share. Bridged packets
// are left to the bridge: the engine makes no rules.
func SharedEngine(t testing.TB) Engine {
	t.Helper()
	shared.run(t, func() {
		common.once.Do(func() { common.engine = dockertest.Start(shared, "--iptables=false", "--ip6tables=false") })
	})
	return Engine{common.engine}
}

// Do does something to the engine: e.Do(t, (*dockertest.Engine).Restart).
func (e Engine) Do(t testing.TB, f func(*dockertest.Engine)) {
	t.Helper()
	if e.Engine != common.engine {
		f(e.Engine)
		return
	}
	shared.run(t, func() { f(e.Engine) })
}
