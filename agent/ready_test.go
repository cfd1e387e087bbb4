package agent

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/plugins/api/apitest"
)

// TestReadyIsLogged: once, when all parts are well for the first time.
func TestReadyIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Bool
		c := apitest.New().Config()
		c.Health = func() []models.Health {
			if well.Load() {
				return []models.Health{{Name: "etcd", State: "ok"}, {Name: "cri", State: "off"}}
			}
			return []models.Health{{Name: "etcd", State: "starting"}}
		}
		server, err := api.New(c)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		a := &agent{api: server, started: time.Now(), log: slog.New(slog.NewTextHandler(&log, nil))}
		ended := make(chan error, 1)
		go func() { ended <- a.tellReady(t.Context()) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if log.Len() > 0 {
			t.Errorf("before it is ready: %s", log.String())
		}
		well.Store(true)
		if err := <-ended; err != nil || !strings.Contains(log.String(), "level=INFO msg=ready took=1m0") {
			t.Errorf("%v: %s", err, log.String())
		}
	})
}
