package etcd

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/models"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
)

func write(key, value string) models.Write { return models.Write{Key: key, Value: []byte(value)} }

func TestStorePort(t *testing.T) {
	stores(t, func(t *testing.T, c Config, _ func() clientv3.KV) {
		a := runAgent(t, c)
		a.ready()
		ctx := t.Context()
		rev, err := a.Write(ctx, []models.Write{write("config/route/b", `"1"`), write("config/route/a", `"1"`)})
		if err != nil {
			t.Fatal(err)
		}
		a.upTo(rev)
		a.wants("route/a=1 route/b=1")
		if kv, ok, err := a.Get(ctx, "config/route/a"); err != nil || !ok || string(kv.Value) != `"1"` || kv.Revision != rev || kv.Key != "config/route/a" {
			t.Errorf("Get: %+v %v %v", kv, ok, err)
		}
		if _, ok, err := a.Get(ctx, "config/route/none"); ok || err != nil {
			t.Errorf("Get of nothing: %v %v", ok, err)
		}
		list, err := a.List(ctx, "config/")
		if err != nil || len(list) != 2 || list[0].Key != "config/route/a" || list[1].Key != "config/route/b" {
			t.Errorf("List: %+v %v", list, err)
		}

		stale, absent := rev-1, int64(0)
		for name, w := range map[string]models.Write{
			"moved":     {Key: "config/route/a", Value: []byte("{}"), If: &stale},
			"not there": {Key: "config/route/x", If: &rev},
			"there":     {Key: "config/route/b", Value: []byte("{}"), If: &absent},
		} {
			if _, err := a.Write(ctx, []models.Write{write("config/route/y", "{}"), w}); !errors.Is(err, models.ErrStoreConflict) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, ok, _ := a.Get(ctx, "config/route/y"); ok {
			t.Error("a conflict wrote something")
		}
		rev, err = a.Write(ctx, []models.Write{{Key: "config/route/a", If: &rev}, {Key: "config/route/b"}})
		if err != nil {
			t.Fatal(err)
		}
		a.upTo(rev)
		a.wants("")
	})
}

func TestWriteRefusesWithAHint(t *testing.T) {
	stores(t, func(t *testing.T, c Config, _ func() clientv3.KV) {
		c.tune.opTimeout = 20 * time.Second // ten thousand writes, on a machine that may be busy
		a := runAgent(t, c)
		a.ready()
		var many []models.Write
		for i := range 10_001 {
			many = append(many, write(fmt.Sprintf("config/route/%d", i), "{}"))
		}
		for what, tc := range map[string]struct {
			writes []models.Write
			want   string
		}{
			"many":     {many, "write fewer at once"},
			"large":    {[]models.Write{write("config/route/r", strings.Repeat("x", 11<<20))}, "write fewer at once"},
			"twice":    {[]models.Write{write("a", "1"), write("a", "2")}, "twice"},
			"absolute": {[]models.Write{write("/plumb/h/config/route/r", "1")}, "without /plumb/h/"},
			"nameless": {[]models.Write{write("", "1")}, "without /plumb/h/"},
		} {
			if _, err := a.Write(t.Context(), tc.writes); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want %q", what, err, tc.want)
			}
		}
		if len(c.Endpoints) > 0 {
			if _, err := a.Write(t.Context(), many[:129]); err == nil || !strings.Contains(err.Error(), "allows 128; write fewer at once") {
				t.Errorf("129 writes: %v", err)
			}
			return
		}
		rev, err := a.Write(t.Context(), many[:10_000])
		if err != nil {
			t.Fatal(err)
		}
		a.upTo(rev)
		if last := a.rec.since(1); len(last) != 1 || len(last[0].Want) != 10_000 {
			t.Errorf("got %s", story(last))
		}
	})
}

// A cluster whose limit is lower than we were told says it, and so do we.
func TestTheClustersOwnLimitIsExplained(t *testing.T) {
	b := etcdtest.Start(t, "--max-txn-ops=2")
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	_, err := a.Write(t.Context(), []models.Write{write("a", "1"), write("b", "1"), write("c", "1")})
	if !errors.Is(err, models.ErrStoreTooMuch) {
		t.Errorf("got %v", err)
	}
}

func TestAStoreThatIsDownFailsSoon(t *testing.T) {
	b := etcdtest.Start(t)
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	b.Stop()
	a.state(healthDown, "")
	begin := time.Now()
	if _, err := a.Write(t.Context(), []models.Write{write("a", "1")}); !errors.Is(err, models.ErrStoreDown) {
		t.Errorf("Write: %v", err)
	}
	if _, err := a.List(t.Context(), ""); !errors.Is(err, models.ErrStoreDown) {
		t.Errorf("List: %v", err)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestBeforeAndAfterRunTheStoreIsDown(t *testing.T) {
	a := newAgent(t, config(t))
	down := func(when string) {
		if _, _, err := a.Get(t.Context(), "a"); !errors.Is(err, models.ErrStoreDown) {
			t.Errorf("%s: Get: %v", when, err)
		}
		if _, err := a.Accept(t.Context()); !errors.Is(err, models.ErrStoreDown) {
			t.Errorf("%s: Accept: %v", when, err)
		}
		if h := a.Health(); h.State == healthOK && when == "before" {
			t.Errorf("%s: health %v", when, h)
		}
	}
	down("before")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	a.ready()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	down("after")
}

func TestConfigIsChecked(t *testing.T) {
	good := config(t, "http://127.0.0.1:1")
	for want, change := range map[string]func(*Config){
		"label":                      func(c *Config) { c.Label = "a/b" },
		"a label has 1 to 63":        func(c *Config) { c.Label = strings.Repeat("l", 64) },
		"absolute":                   func(c *Config) { c.StateDir = "state" },
		"certificate needs":          func(c *Config) { c.CertFile = "x" },
		"password file":              func(c *Config) { c.User = "u" },
		"write https://":             func(c *Config) { c.CAFile = "x" },
		"http, https or unix":        func(c *Config) { c.Endpoints = []string{"ftp://x"} },
		"etcd CA":                    func(c *Config) { c.CAFile, c.Endpoints = "/nowhere", []string{"https://x"} },
		"etcd password":              func(c *Config) { c.User, c.PasswordFile = "u", "/nowhere" },
		"for an external etcd":       func(c *Config) { c.Endpoints, c.CAFile = nil, "x" },
		"choose a shorter --run-dir": func(c *Config) { c.Endpoints, c.RunDir = nil, "/"+strings.Repeat("r", 100) },
	} {
		c := good
		change(&c)
		if _, err := New(c, decodeText, newRecorder(), newBoard().watch); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestAskedRightAfterTheStart: who asks before the embedded store has started gets an
// answer, and not that it is down.
func TestAskedRightAfterTheStart(t *testing.T) {
	a := newAgent(t, config(t))
	if _, err := a.List(t.Context(), ""); !errors.Is(err, models.ErrStoreDown) {
		t.Errorf("List before Run: %v", err)
	}
	a.run()
	for !a.starting.Load() {
		runtime.Gosched()
	}
	var asks sync.WaitGroup
	asks.Go(func() {
		if _, _, err := a.Get(t.Context(), "config/route/r"); err != nil {
			t.Errorf("Get: %v", err)
		}
	})
	asks.Go(func() {
		if _, err := a.List(t.Context(), ""); err != nil {
			t.Errorf("List: %v", err)
		}
	})
	asks.Go(func() {
		if _, err := a.Write(t.Context(), []models.Write{write("config/route/r", "1")}); err != nil {
			t.Errorf("Write: %v", err)
		}
	})
	asks.Wait()
}
