package socket

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/container"
)

// TestAbsent: a socket that is missing means "no engine here" only if nobody
// said where the engine is.
func TestAbsent(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "none.sock")
	for _, c := range []struct {
		path   string
		absent bool
	}{{"", true}, {nowhere, false}, {"unix://" + nowhere, false}} {
		s, err := New("engine", c.path, nowhere)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Conn()
		if errors.Is(err, container.ErrAbsent) != c.absent || err == nil {
			t.Errorf("%q: %v", c.path, err)
		}
		err = s.Explain(t.Context(), errors.New("refused"))
		if errors.Is(err, container.ErrAbsent) != c.absent || err == nil {
			t.Errorf("%q: %v", c.path, err)
		}
	}
}

// TestExplain: errors say what is wrong and what to do.
func TestExplain(t *testing.T) {
	s, err := New("engine", "/e.sock", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Explain(t.Context(), errors.New("dial: permission denied")).Error(); !strings.HasSuffix(got, "run the agent as root") {
		t.Error(got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Explain(ctx, errors.New("x")); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "engine at /e.sock gave no answer") {
		t.Error(err)
	}
	if _, err := New("engine", "e.sock", "/e.sock"); err == nil {
		t.Error("a path that does not begin with / was taken")
	}
}
