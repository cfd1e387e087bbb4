package zaplog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func TestLevelsAreLoweredByOne(t *testing.T) {
	var out bytes.Buffer
	lg := New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	lg.Debug("too much")
	lg.Info("starting", zap.Int("n", 3))
	lg.With(zap.String("member", "m1")).Warn("slow", zap.Strings("urls", []string{"a", "b"}))
	lg.Error("broken", zap.Error(nil))

	got := out.String()
	for _, want := range []string{
		`level=DEBUG msg="etcd says" message=starting n=3`,
		`level=INFO msg="etcd says" member=m1 message=slow urls="[a b]"`,
		`level=WARN msg="etcd says" message=broken`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "too much") {
		t.Errorf("etcd's own debug lines come out:\n%s", got)
	}
}

func TestNoLoggerIsSilent(t *testing.T) {
	New(nil).Error("nobody hears it")
}
