package agent

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/loglevel"
)

// TestRecentLog: the last lines are kept, at the level that is set, bounded, and without
// passwords in addresses; the log itself is as before.
func TestRecentLog(t *testing.T) {
	var out bytes.Buffer
	levels := loglevel.New("etcd")
	r := new(recent)
	log := slog.New(levels.Handler(r.beside(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	read := func() string {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, nil)
		return w.Body.String()
	}
	log.Debug("no")
	log.With("part", "etcd").Info("yes", "at", "http://root:hunter2@10.0.0.1:2379")
	if err := levels.SetAll("debug,etcd=error"); err != nil {
		t.Fatal(err)
	}
	log.With("part", "etcd").Info("no")
	log.Debug("now")
	if got := read(); strings.Contains(got, "msg=no ") || strings.Contains(got, "hunter2") || !strings.Contains(got, "part=etcd") || !strings.Contains(got, "msg=now") {
		t.Errorf("kept\n%s", got)
	}
	if strings.Count(out.String(), "\n") != 2 {
		t.Errorf("written\n%s", out.String())
	}
	text := strings.Repeat("x", 1000)
	for i := range 1000 {
		log.Info(text, "i", i)
	}
	if got := read(); len(got) > recentBytes || len(got) < recentBytes-2000 || !strings.HasSuffix(got, "i=999\n") {
		t.Errorf("%d bytes are kept, %s", len(got), fmt.Sprintf("%.20s", got))
	}
}
